/** What Tab offers in `%planck` while the kernel is busy. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { offerAt } from '../src/lab/cells/planck-cells.ts';
import type { Names, Verbs, VerbWords } from '../src/lab/kernel/protocol.generated.ts';

const verb = (more: Partial<VerbWords>): VerbWords => ({ about: 'about it', is_cell: false, takes_agent: false, options: {}, ...more });
const VERBS: Verbs = {
  type: 'verbs',
  verbs: { stop: verb({ takes_agent: true }), sql: verb({ is_cell: true, options: { '--as': 'a frame' } }) },
  options: { '--model': 'the model' },
};
const NAMES: Names = { type: 'names', agents: { ann: 'idle', 'data cruncher': 'idle' }, variables: { '@orders': 'DataFrame' } };

const CASES: readonly (readonly [text: string, offered: readonly string[] | null])[] = [
  ['%planck ', ['ann', 'data cruncher', 'stop', 'sql']],
  ['x = 1\n  y = %planck s', ['stop', 'sql']],
  ['%planck stop a', ['ann']],
  ['%planck stop ann a', null],
  ['%planck sql --', ['--as']],
  ['%planck ann --m', ['--model']],
  ['%planck ann what is @o', ['@orders']],
  ['%planck what is a', null],
  ['%planck constructor a', null],
  ['%%planck s', ['sql']],
  ['%%planck ann\nlook at @', ['@orders']],
  ['%%planck ann\nlook at o', null],
  ['%%planck ann\n%planck s', null],
  ['%%planck sql\nSELECT @', null],
  ['%planckish s', null],
  ['print(1)', null],
  ['', null],
];

for (const [text, offered] of CASES)
  test(`at the end of ${JSON.stringify(text)}`, () => {
    const offer = offerAt(`${text}\nmore`, text.length, VERBS, NAMES);
    assert.deepEqual(offer && Object.keys(offer.texts), offered);
    if (offer) assert.equal(offer.start, Math.max(text.lastIndexOf(' '), text.lastIndexOf('\n')) + 1);
  });
