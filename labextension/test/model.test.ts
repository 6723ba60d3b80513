import assert from 'node:assert/strict';
import { test } from 'node:test';

import { facts, valueOf, visible, wants } from '../src/asking.ts';
import { Channel } from '../src/channel.ts';
import type { Outgoing } from '../src/channel.ts';
import { crowds, namesOf, troubleOf } from '../src/crowds.ts';
import { count, dollars, duration, elapsed, lastSentence } from '../src/figures.ts';
import { EMPTY, fold, foldAll, statusOf } from '../src/model.ts';
import type { Ask, Call, Run, RunEvent } from '../src/model.ts';
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

test('nothing runs once the kernel is gone, and the run goes on should it speak again', () => {
  let time = 8000;
  let told = 0;
  const channel = new Channel(() => {}, () => time);
  channel.subscribe(() => told++);
  channel.receive({ type: 'frame', from: 0, to: 12, now: 8, events: RUN.slice(0, 12) });
  time = 20_000;
  channel.end();
  channel.end();
  const states = (): string[] => channel.run.items.flatMap((item) => (item.kind === 'call' ? [item.state] : []));
  assert.deepEqual(states(), ['stop', 'stop']);
  assert.deepEqual([channel.ended, channel.run.until, call(channel.run, '1').until, told], [true, 20, 20, 2]);
  channel.receive({ type: 'frame', from: 12, to: 13, now: 21, events: RUN.slice(12, 13) });
  assert.deepEqual(states(), ['bad', 'run']);
  assert.deepEqual([channel.ended, channel.run.until], [false, null]);
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

const ASK: RunEvent = {
  type: 'ask',
  t: 8,
  id: '1',
  name: 'read',
  key: 'x',
  touches: [['write', 'a/x']],
  folder: '~/a',
  reason: '',
  args: [['path', 'x', 'text']],
  replaced: [],
  change: null,
  deadline: 90,
};
const STARTED = RUN.slice(0, 12);

test('a call that needs consent waits for it, and shows what it is run with', () => {
  const asking = foldAll(EMPTY, [...STARTED, ASK]);
  assert.deepEqual([call(asking, '1').state, statusOf(asking), asking.asks.length], ['ask', 'Waiting for you', 1]);
  const allowed = fold(asking, { type: 'decided', t: 20, id: '1', allowed: true, by: 'user', key: 'y', args: [['path', 'y']] });
  assert.deepEqual(
    [call(allowed, '1').state, call(allowed, '1').since, call(allowed, '1').key, call(allowed, '1').edited, allowed.asks],
    ['run', 20, 'y', true, []],
  );
  assert.equal(statusOf(allowed), 'Running 2 tools');
});

test('a call that was denied stays so, whatever the model is told of it', () => {
  const denied = foldAll(EMPTY, [
    ...STARTED,
    ASK,
    { type: 'decided', t: 20, id: '1', allowed: false, by: 'deadline' },
    { type: 'result', t: 20, id: '1', name: 'read', text: 'Error: nobody', error: true },
  ]);
  assert.deepEqual([call(denied, '1').state, call(denied, '1').result], ['deny', 'Error: nobody']);
});

test('a rule that allows a call without asking changes nothing', () => {
  const before = foldAll(EMPTY, STARTED);
  assert.equal(fold(before, { type: 'decided', t: 8, id: '1', allowed: true, by: 'rule' }), before);
});

test('a stopped run asks nothing any more', () => {
  const stopped = foldAll(EMPTY, [...STARTED, ASK, { type: 'aborted', t: 9 }]);
  assert.deepEqual([stopped.asks, call(stopped, '1').state], [[], 'stop']);
});

test('prompts wait in the queue from the run on, and the run itself does not', () => {
  const queued = (id: string, text: string): RunEvent => ({ type: 'queued', t: 1, id, text, steer: false, whole: true });
  const run = foldAll(EMPTY, [
    queued('own', 'the prompt'),
    { type: 'unqueued', t: 1, id: 'own' },
    RUN[0] as RunEvent,
    queued('1', 'a'),
    queued('2', 'b'),
    queued('1', 'c'),
    { type: 'unqueued', t: 1, id: '2' },
  ]);
  assert.deepEqual(run.queue.map(({ id, text }) => [id, text]), [['1', 'c']]);
  const said = fold(run, { type: 'said', t: 2, text: 'left' });
  assert.deepEqual(said.items, [{ kind: 'said', text: 'left' }]);
});

test('only the newest lines of a running tool are kept', () => {
  const run = foldAll(EMPTY, [
    ...STARTED,
    { type: 'progress', t: 8, id: '1', text: 'a', earlier: 0 },
    { type: 'progress', t: 8, id: '1', text: 'b', earlier: 4 },
    { type: 'progress', t: 8, id: 'nobody', text: 'x', earlier: 0 },
  ]);
  assert.deepEqual([call(run, '1').output, call(run, '1').earlier], ['b', 4]);
});

test('more than eight finished calls of one step are a crowd', () => {
  const calls = (size: number, step: string): RunEvent[] => [
    ...Array.from({ length: size }, (_, at): RunEvent => ({ type: 'args', t: 1, id: `${step}${at}`, name: at % 4 ? 'read' : 'ls', text: '{}', count: 2 })),
    { type: 'message', t: 2, stop: 'tool_use' },
    ...Array.from({ length: size }, (_, at): RunEvent => ({ type: 'result', t: 3, id: `${step}${at}`, name: 'read', text: '', error: at === 3 })),
  ];
  const run = foldAll(EMPTY, [...calls(8, 'a'), ...calls(9, 'b'), { type: 'text', t: 4, text: 'x' }, ...calls(9, 'c').slice(0, -1)]);
  assert.deepEqual(crowds(run.items), [{ from: 8, to: 17 }]);
  const held = run.items.slice(8, 17) as Call[];
  assert.equal(namesOf(held), 'ls 3, read 6');
  assert.equal(troubleOf(held), '1 failed');
});

test('compaction, limits and fallbacks are told in words', () => {
  const run = foldAll(EMPTY, [
    { type: 'compacting', t: 0 },
    { type: 'compacted', t: 1, before: 90_100, after: 8_200, reason: '' },
    { type: 'compacted', t: 1, before: 90_100, after: null, reason: 'Too short.' },
    { type: 'rewound', t: 1 },
    { type: 'limit', t: 1, limit: 'session_cost', reason: 'Spent.' },
    { type: 'fallback', t: 1, failed: 'a:b', model: 'c:d', reason: 'Busy.' },
  ]);
  assert.deepEqual(
    run.items.map((item) => (item.kind === 'cut' ? item.text : item.kind === 'note' ? item.title : '')),
    [
      'What was said before was summarised: 90.1k tokens became 8.2k',
      'The conversation was not shortened',
      'The conversation was taken back to an earlier message',
      'Limit reached: session cost',
      'a:b could not answer, so c:d is asked',
    ],
  );
});

const asked = (touches: Ask['touches'], more: Partial<Ask> = {}): Ask => ({ ...(ASK as unknown as Ask), touches, ...more });
const words = (ask: Ask): string => facts(ask).map(([text]) => text).join('').trim();

test('an approval says who wants what', () => {
  assert.deepEqual(wants(asked([['write', 'a/x']])), { verb: 'wants to change', target: 'a/x' });
  assert.deepEqual(wants(asked([['write', 'a'], ['write', 'b']])), { verb: 'wants to change 2 files', target: '' });
  assert.equal(wants(asked([['write', 'a'], ['execute', 'ls']])).verb, 'wants to run a command');
  assert.equal(wants(asked([['network', 'x.invalid']])).verb, 'wants to use the network');
  assert.equal(wants(asked([])).verb, 'wants to run');
  assert.equal(
    words(asked([['write', 'a/x']], { change: [['-', 'a'], ['+', 'b'], ['+', 'c']] })),
    'Writes 1 file in ~/a. 2 lines added, 1 removed.',
  );
  assert.equal(words(asked([['write', 'a'], ['write', 'b']], { folder: '' })), 'Writes 2 files: a, b.');
  assert.equal(words(asked([['execute', 'ls']], { reason: 'No rule.' })), 'Runs a command. It can write files and use the network. No rule.');
  assert.equal(words(asked([['network', 'x.invalid']])), 'Uses the network: x.invalid.');
  assert.equal(words(asked([])), 'It does not say what it touches.');
});

test('fields give values of their kind', () => {
  assert.deepEqual(
    [valueOf('number', '1.5'), valueOf('number', ''), valueOf('number', '1e99'), valueOf('number', 'x')],
    [1.5, undefined, undefined, undefined],
  );
  assert.deepEqual([valueOf('choice', 'false'), valueOf('json', '[1]'), valueOf('json', '['), valueOf('text', '')], [false, [1], undefined, '']);
});

test('what does not show is named', () => {
  assert.equal(visible('a\tb\nc'), 'a\tb\nc');
  assert.equal(visible('\u202ea\u200b\r\u001b'), '⟨U+202E⟩a⟨U+200B⟩⟨U+000D⟩⟨U+001B⟩');
});

test('what could not be done is told, wherever the run stands', () => {
  const told: string[] = [];
  const channel = new Channel(() => {});
  const end = channel.onRefusal(({ reason }) => told.push(reason));
  channel.receive({ type: 'refused', reason: 'no', text: '' });
  end();
  channel.receive({ type: 'refused', reason: 'not again', text: '' });
  assert.deepEqual(told, ['no']);
});
