import assert from 'node:assert/strict';
import { test } from 'node:test';

import { effectSentences, intention, parseValue, rememberLabel, ruleScopes, visible } from '../src/model/approval-text.ts';
import type { ApprovalDisplay } from '../src/model/events.generated.ts';
import { count, dollars, duration, elapsed, lastSentence } from '../src/model/format.ts';
import { keyOf, stringMembers } from '../src/model/partial-json.ts';

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

test('numbers and durations are short', () => {
  assert.deepEqual([0, 999, 1000, 999_949, 999_950, 18_432].map(count), ['0', '999', '1.0k', '999.9k', '1.0M', '18.4k']);
  assert.deepEqual([0, 0.0001, 0.063, 1.2].map(dollars), ['$0', '<$0.001', '$0.063', '$1.20']);
  assert.deepEqual([0.4, 41.9, 84].map(elapsed), ['0 s', '41 s', '1:24']);
  assert.deepEqual([0.12, 59.96].map(duration), ['0.1 s', '59 s']);
  assert.equal(lastSentence('One. Two is\nlonger. '), 'Two is longer');
});

const request = (effects: ApprovalDisplay['effects'], more: Partial<ApprovalDisplay> = {}): ApprovalDisplay => ({
  key: '',
  effects,
  folder: '~/a',
  cwd: '',
  reason: '',
  arguments: [],
  replaced: [],
  change: null,
  commands: [],
  rule: '',
  whole: true,
  sandboxed: null,
  ...more,
});
const sentences = (display: ApprovalDisplay): string =>
  effectSentences(display)
    .map(([text]) => text)
    .join('')
    .trim();

test('an approval request states the intention and the effects of the call', () => {
  assert.deepEqual(intention(request([['write', 'a/x']])), { verb: 'wants to change', target: 'a/x' });
  assert.deepEqual(intention(request([['write', 'a'], ['write', 'b']])), { verb: 'wants to change 2 files', target: '' });
  assert.equal(intention(request([['write', 'a'], ['execute', 'ls']])).verb, 'wants to run a command');
  assert.equal(intention(request([['network', 'x.invalid']])).verb, 'wants to use the network');
  assert.equal(intention(request([])).verb, 'wants to run');
  const change = [['-', 'a'], ['+', 'b'], ['+', 'c']] as const;
  assert.equal(sentences(request([['write', 'a/x']], { change })), 'Writes 1 file in ~/a. 2 lines added, 1 removed.');
  assert.equal(sentences(request([['write', 'a'], ['write', 'b']], { folder: '' })), 'Writes 2 files: a, b.');
  const command = request([['execute', 'ls']], { reason: 'No rule.' });
  assert.equal(sentences(command), 'Runs a command. It can write files and use the network. No rule.');
  assert.match(
    effectSentences(command, 'run_python').map(([text]) => text).join(''),
    /^Can do all that you can: .* No rule\.$/,
  );
  const sandboxed = (effects: ApprovalDisplay['effects'], sandboxed: boolean): string =>
    sentences(request([['execute', 'ls'], ...effects], { sandboxed, folder: '' }));
  assert.equal(sandboxed([], false), 'Runs a command without a sandbox: it can write files and use the network.');
  const network = "Uses the network, also this computer's own servers.";
  const inside = 'Runs a command in a sandbox: it can write only below the working directory';
  assert.equal(sandboxed([], true), `${inside}, and has no network.`);
  assert.equal(sandboxed([['network', '']], true), `${inside}. ${network}`);
  const named = `${inside} and in what is named above`;
  assert.equal(sandboxed([['write', '/data']], true), `Writes 1 file. ${named}, and has no network.`);
  assert.equal(sandboxed([['write', '/data'], ['network', '']], true), `Writes 1 file. ${named}. ${network}`);
  assert.equal(sentences(request([['network', 'x.invalid']])), 'Uses the network: x.invalid.');
  const elsewhere = { sandboxed: true, folder: '', cwd: '~/b' };
  assert.match(sentences(request([['execute', 'ls']], elsewhere)), /^Runs a command in ~\/b, in a sandbox: it can/);
  assert.match(sentences(request([['execute', 'ls']], { cwd: '~/b' })), /^Runs a command in ~\/b\. It can/);
  assert.equal(sentences(request([])), 'The tool does not declare its effects.');
});

test('a decision can be remembered for the role of an agent only if it has one', () => {
  assert.deepEqual(ruleScopes(''), [['agent', 'This agent'], ['all', 'All agents']]);
  assert.deepEqual(ruleScopes('worker')[1], ['role', 'All workers']);
  assert.equal(rememberLabel('agent', ''), 'Always this session');
  assert.equal(rememberLabel('all', ''), 'Always this session, all agents');
  assert.equal(rememberLabel('role', 'orchestrator'), 'Always this session, all orchestrators');
});

test('fields return values of their kind', () => {
  const numbers = ['1.5', '', '1e99', 'x'].map((text) => parseValue('number', text));
  assert.deepEqual(numbers, [1.5, undefined, undefined, undefined]);
  const others = [parseValue('boolean', 'false'), parseValue('json', '[1]'), parseValue('json', '['), parseValue('text', '')];
  assert.deepEqual(others, [false, [1], undefined, '']);
});

test('invisible characters are shown by their codes', () => {
  assert.equal(visible('a\tb\nc'), 'a\tb\nc');
  assert.equal(visible('\u202ea\u200b\r\u001b'), '⟨U+202E⟩a⟨U+200B⟩⟨U+000D⟩⟨U+001B⟩');
  assert.equal(visible('\u{e0041}\ud800\u3164⟨U+202E⟩⟨'), '⟨U+E0041⟩⟨U+D800⟩⟨U+3164⟩⟨U+27E8⟩U+202E⟩⟨');
});
