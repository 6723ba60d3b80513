import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Channel } from '../src/channel.ts';
import type { Outgoing } from '../src/channel.ts';
import { count, dollars, duration, elapsed, lastSentence } from '../src/figures.ts';
import { EMPTY, foldAll } from '../src/model.ts';
import type { Call, Run, RunEvent } from '../src/model.ts';
import { keyOf, stringMembers } from '../src/partial.ts';

const call = (run: Run, id: string): Call => run.items.find((item) => item.kind === 'call' && item.id === id) as Call;

const RUN: RunEvent[] = [
  { type: 'turn', t: 0, model: 'm' },
  { type: 'thinking', t: 1, text: 'Hm. ' },
  { type: 'thinking', t: 2, text: 'So.' },
  { type: 'text', t: 3, text: 'I ' },
  { type: 'text', t: 3, text: 'look.' },
  { type: 'args', t: 4, id: '1', name: 'read', text: '{"pa', count: 4 },
  { type: 'args', t: 4, id: '2', name: 'list', text: '{}', count: 2 },
  { type: 'args', t: 5, id: '1', name: 'read', text: 'th": "x"}', count: 13 },
  { type: 'message', t: 6, stop: 'tool_use' },
  { type: 'usage', t: 6, input: 10, output: 2, cost: 0.5 },
  { type: 'tool', t: 7, id: '1', name: 'read', key: 'x', args: [['path', 'x']] },
  { type: 'tool', t: 7, id: '2', name: 'list', key: '', args: [] },
  { type: 'result', t: 9, id: '1', name: 'read', text: 'no', error: true },
  { type: 'result', t: 9, id: '2', name: 'list', text: 'a', error: false },
  { type: 'text', t: 10, text: 'Done.' },
  { type: 'message', t: 11, stop: 'stop' },
  { type: 'end', t: 11 },
];

test('a run folds into its items', () => {
  const run = foldAll(EMPTY, RUN);
  assert.deepEqual(
    run.items.map((item) => item.kind),
    ['thinking', 'prose', 'call', 'call', 'prose'],
  );
  assert.deepEqual(run.items[0], { kind: 'thinking', text: 'Hm. So.', since: 1, until: 3 });
  assert.deepEqual(run.items[1], { kind: 'prose', text: 'I look.', open: false });
  assert.equal(call(run, '1').state, 'bad');
  assert.equal(call(run, '1').past, true);
  assert.equal(call(run, '2').until, 9);
  assert.deepEqual([run.status, run.step, run.since, run.until, run.input, run.cost], ['Done', 2, 0, 11, 10, 0.5]);
});

test('the fold changes nothing it was given', () => {
  const before = foldAll(EMPTY, RUN.slice(0, 8));
  const copy = structuredClone(before);
  foldAll(before, RUN.slice(8));
  assert.deepEqual(before, copy);
});

test('arguments of parallel calls are kept apart', () => {
  const run = foldAll(EMPTY, RUN.slice(0, 8));
  assert.equal(call(run, '1').forming, '{"path": "x"}');
  assert.equal(call(run, '2').forming, '{}');
});

test('stopping stops what is under way and keeps it', () => {
  const run = foldAll(EMPTY, [...RUN.slice(0, 12), { type: 'aborted', t: 8 }]);
  assert.deepEqual([call(run, '1').state, call(run, '1').until], ['stop', 8]);
  assert.equal(run.items.at(-1)?.kind, 'note');
});

test('a call that never ran fails with what the model was told', () => {
  const run = foldAll(EMPTY, [...RUN.slice(0, 9), { type: 'failures', t: 7, calls: [['1', 'not JSON']] }]);
  assert.deepEqual([call(run, '1').state, call(run, '1').result], ['bad', 'not JSON']);
});

test('a cost that is not known of one reply is not known of the run', () => {
  const usage = (cost: number | null): RunEvent => ({ type: 'usage', t: 1, input: 1, output: 1, cost });
  assert.equal(foldAll(EMPTY, [usage(0.1), usage(0.2)]).cost?.toFixed(3), '0.300');
  assert.equal(foldAll(EMPTY, [usage(null), usage(0.2)]).cost, null);
});

test('a gap asks for everything once, and the snapshot replaces', () => {
  const sent: Outgoing[] = [];
  let time = 0;
  const channel = new Channel((message) => sent.push(message), () => time);
  const text = (value: string): RunEvent => ({ type: 'text', t: 0, text: value });
  channel.receive({ type: 'frame', from: 0, to: 1, now: 0, events: [text('a')] });
  channel.receive({ type: 'frame', from: 2, to: 3, now: 0, events: [text('c')] });
  channel.receive({ type: 'frame', from: 3, to: 4, now: 0, events: [text('d')] });
  assert.deepEqual(sent, [{ type: 'resync' }]);
  time = 4000;
  channel.receive({ type: 'frame', from: 4, to: 5, now: 0, events: [text('e')] });
  assert.equal(sent.length, 2);
  channel.receive({ type: 'snapshot', to: 5, now: 9, events: [text('abcde')] });
  channel.receive({ type: 'frame', from: 5, to: 6, now: 9, events: [text('f')] });
  assert.deepEqual(channel.run.items, [{ kind: 'prose', text: 'abcdef', open: true }]);
  assert.equal(channel.now(), 9);
});

test('string arguments are read at every cut', () => {
  const json = '{"n": {"path": "no"}, "path": "a\\u00e9\\"\\n", "list": ["x"], "code": "y"}';
  for (let at = 0; at <= json.length; at++) {
    for (const member of stringMembers(json.slice(0, at))) {
      assert.ok(['path', 'code'].includes(member.name), json.slice(0, at));
      assert.ok('aé"\n'.startsWith(member.text) || member.name === 'code', `${member.text} at ${at}`);
    }
  }
  assert.deepEqual(stringMembers(json), [
    { name: 'path', text: 'aé"\n', complete: true },
    { name: 'code', text: 'y', complete: true },
  ]);
  assert.equal(keyOf(stringMembers('{"code": "x = 1", "path": "a/b"')), 'a/b');
  assert.equal(keyOf(stringMembers('{"path": "a/')), '');
});

test('figures are short', () => {
  assert.deepEqual([0, 999, 1000, 999_949, 999_950, 18_432].map(count), ['0', '999', '1.0k', '999.9k', '1.0M', '18.4k']);
  assert.deepEqual([0, 0.0001, 0.063, 1.2].map(dollars), ['$0', '<$0.001', '$0.063', '$1.20']);
  assert.deepEqual([0.4, 41.9, 84].map(elapsed), ['0 s', '41 s', '1:24']);
  assert.deepEqual([0.12, 59.96].map(duration), ['0.1 s', '59 s']);
  assert.equal(lastSentence('One. Two is\nlonger. '), 'Two is longer');
});
