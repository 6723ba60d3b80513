import assert from 'node:assert/strict';
import { test } from 'node:test';

import { callGroups, failureCounts, toolCounts } from '../src/model/call-groups.ts';
import type { AgentEvent, ApprovalDisplay } from '../src/model/events.generated.ts';
import { fold, newAgent } from '../src/model/agent-state.ts';
import type { AgentState, Call } from '../src/model/agent-state.ts';
import { event, RUNNING, replied, text, TURN, used, written } from './events.ts';

const after = (events: readonly AgentEvent[], agent = newAgent('a')): AgentState => events.reduce(fold, agent);
const call = (agent: AgentState, id: string): Call =>
  agent.items.find((item) => item.kind === 'call' && item.id === id) as Call;

test('a turn folds into its items', () => {
  const agent = after(TURN);
  assert.deepEqual(
    agent.items.map((item) => item.kind),
    ['thinking', 'prose', 'call', 'call', 'prose'],
  );
  const reply = { agent: 'a', step: 1, message: 6 };
  assert.deepEqual(agent.items[0], { ...reply, kind: 'thinking', text: 'Hm. So.', since: 1, until: 3 });
  assert.deepEqual(agent.items[1], { ...reply, kind: 'prose', text: 'I look.', open: false });
  assert.equal(call(agent, '1').state, 'bad');
  assert.equal(call(agent, '1').past, true);
  assert.equal(call(agent, '2').until, 9);
  assert.deepEqual([agent.activity, agent.step, agent.since, agent.until], ['Done', 2, 0, 11]);
  assert.deepEqual([agent.status, agent.running], ['idle', []]);
});

test('the fold does not change its arguments', () => {
  const before = after(TURN.slice(0, 8));
  const copy = structuredClone(before);
  after(TURN.slice(8), before);
  assert.deepEqual(before, copy);
});

test('an event of an unknown type changes nothing', () => {
  const before = after(RUNNING);
  assert.equal(fold(before, { ...TURN[0], type: 'from_a_newer_kernel' } as unknown as AgentEvent), before);
});

test('arguments of parallel calls are kept apart', () => {
  const agent = after(TURN.slice(0, 8));
  assert.equal(call(agent, '1').json, '{"path": "x"}');
  assert.equal(call(agent, '2').json, '{}');
});

test('images are those of their calls, and of many only the newest are kept', () => {
  const image = (call: string, size: number) => ({ call, source: `data:image/png;base64,${'A'.repeat(size)}`, notice: call });
  const results = (images: readonly ReturnType<typeof image>[]): AgentEvent =>
    event('message', 9, { id: 9, message: { type: 'tool_result', content: [] }, display: { images } } as never);
  const before = after(TURN.slice(0, 14));
  const calls = (state: AgentState) =>
    state.items.flatMap((item) => (item.kind === 'call' ? [item.images.map(({ notice, source }) => [notice, source !== ''])] : []));
  const two = fold(before, results([image('2', 10), image('1', 10), image('2', 20)]));
  assert.deepEqual(calls(two), [[['1', true]], [['2', true], ['2', true]]]);
  const many = fold(two, results([image('2', 3_999_000), image('2', 3_999_000)]));
  assert.deepEqual(calls(many), [[['1', true]], [['2', true], ['2', true]]]);
  const over = fold(many, results([image('1', 5_000)]));
  assert.deepEqual(calls(over), [[['1', false]], [['2', true], ['2', true]]]);
  assert.equal(calls(before).flat().length, 0);
});

test('an aborted turn stops what is running and keeps it', () => {
  const agent = after([...RUNNING, event('aborted', 8, {})]);
  assert.deepEqual([call(agent, '1').state, call(agent, '1').until], ['stop', 8]);
  assert.equal(agent.items.at(-1)?.kind, 'note');
});

test('a call that never ran fails with the text for the model', () => {
  const part = { type: 'tool_result', id: '1', name: 'read', text: 'not JSON', is_error: true } as const;
  const results = event('message', 7, { id: 7, message: { type: 'tool_result', content: [part] } });
  const agent = after([...TURN.slice(0, 9), results]);
  assert.deepEqual([call(agent, '1').state, call(agent, '1').result], ['bad', 'not JSON']);
});

test('the cost is unknown once a reply has no price', () => {
  assert.equal(after([used(1, 0.1), used(2, 0.2)]).spent.cost?.toFixed(3), '0.300');
  assert.equal(after([used(1, null), used(2, 0.2)]).spent.cost, null);
});

const DISPLAY: ApprovalDisplay = {
  key: 'x',
  effects: [['write', 'a/x']],
  folder: '~/a',
  reason: '',
  arguments: [['path', 'x', 'text']],
  replaced: [],
  change: null,
};
const REQUEST = event('approval_request', 8, { id: '1', name: 'read', deadline: 90, display: DISPLAY });
const decision = (allowed: boolean, by: 'user' | 'deadline' | 'rule', more: object = {}): AgentEvent =>
  event('approval_decision', 20, { id: '1', name: 'read', allowed, by, rule: '', reason: '', ...more });

test('a call that needs approval waits for it, and shows the arguments that it is run with', () => {
  const waiting = after([...RUNNING, REQUEST]);
  assert.deepEqual([call(waiting, '1').state, waiting.approvals.length], ['ask', 1]);
  const allowed = fold(waiting, decision(true, 'user', { display: { key: 'y', arguments: [['path', 'y']] } }));
  const { state, since, key, edited } = call(allowed, '1');
  assert.deepEqual([state, since, key, edited, allowed.approvals], ['run', 20, 'y', true, []]);
  assert.equal(allowed.activity, 'Running 2 tools');
});

test('a request for approval has the role of its agent', () => {
  const started = event('agent_started', 0, { name: 'b', agent_type: '', model: 'm', role: 'worker' } as never);
  const [alone, inTeam] = [after([...RUNNING, REQUEST]), after([started, ...RUNNING, REQUEST])];
  assert.deepEqual([alone.approvals[0]?.role, inTeam.approvals[0]?.role], ['', 'worker']);
});

test('a denied call stays denied when its result comes', () => {
  const result = event('tool_end', 20, { id: '1', name: 'read', result: 'Error: denied', error: true });
  const denied = after([...RUNNING, REQUEST, decision(false, 'deadline'), result]);
  assert.deepEqual([call(denied, '1').state, call(denied, '1').result], ['deny', 'Error: denied']);
});

test('a rule that allows a call without a request changes nothing', () => {
  const before = after(RUNNING);
  assert.equal(fold(before, decision(true, 'rule')), before);
});

test('an aborted turn has no pending approvals', () => {
  const stopped = after([...RUNNING, REQUEST, event('aborted', 9, {})]);
  assert.deepEqual([stopped.approvals, call(stopped, '1').state], [[], 'stop']);
});

test('messages that steer and those of other agents are shown, and no prompts', () => {
  const user = (time: number, value: string, sender_id: string | null = null): AgentEvent => {
    const part = { type: 'text', text: value, provider_state: null } as const;
    const message = { type: 'user', content: [part], sender_id, sender_name: null } as const;
    return event('message', time, { id: time, message });
  };
  const steered = event('steered', 1, { prompt_id: 'q' });
  const agent = after([user(1, 'prompt'), steered, steered, user(2, 'left'), user(3, 'up'), user(4, 'correction'), user(5, 'done', 'b')]);
  assert.deepEqual(agent.items, [
    { kind: 'interjection', agent: 'a', sender: '', text: 'left' },
    { kind: 'interjection', agent: 'a', sender: '', text: 'up' },
    { kind: 'interjection', agent: 'a', sender: 'b', text: 'done' },
  ]);
});

test('only the last lines of running output are kept', () => {
  const output = (id: string, tail: string, earlier_lines: number): AgentEvent =>
    event('tool_progress', 8, { id, name: 'read', display: { tail, earlier_lines } });
  const agent = after([...RUNNING, output('1', 'a', 0), output('1', 'b', 4), output('unknown', 'x', 0)]);
  assert.deepEqual([call(agent, '1').output, call(agent, '1').earlierLines], ['b', 4]);
});

test('more than eight finished calls of one reply are a group', () => {
  const calls = (size: number, reply: string): AgentEvent[] => [
    ...Array.from({ length: size }, (_, at) => written(1, `${reply}${at}`, at % 4 ? 'read' : 'ls', '{}', 2)),
    replied(2, 'tool_use'),
    ...Array.from({ length: size }, (_, at) =>
      event('tool_end', 3, { id: `${reply}${at}`, name: 'read', result: '', error: at === 3 }),
    ),
  ];
  const agent = after([...calls(8, 'a'), ...calls(9, 'b'), text(4, 'x'), ...calls(9, 'c').slice(0, -1)]);
  assert.deepEqual(callGroups(agent.items), [{ from: 8, to: 17 }]);
  const grouped = agent.items.slice(8, 17) as Call[];
  assert.equal(toolCounts(grouped), 'ls 3, read 6');
  assert.equal(failureCounts(grouped), '1 failed');
  const others = agent.items.map((item, at) => (at === 12 ? { ...item, agent: 'b' } : item));
  assert.deepEqual(callGroups(others), []);
});

test('compaction, limits and fallbacks are shown as sentences', () => {
  const compacted = { tokens_before: 90_100, tokens_after: 8_200 };
  const usage = { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, thinking_tokens: 0 };
  const agent = after([
    event('compacting', 0, { messages: 9, tokens: 90_100 }),
    event('compacted', 1, { ...compacted, summary_id: 9, reason: '' }),
    event('compacted', 1, { ...compacted, summary_id: null, reason: 'Too short.' }),
    event('rewound', 1, { message_id: 1, usage, cost: null }),
    event('limit_reached', 1, { limit: 'session_cost', reason: 'Spent.' }),
    event('fallback', 1, { failed: 'a:b', model: 'c:d', reason: 'Busy.' }),
  ]);
  assert.deepEqual(
    agent.items.map((item) => (item.kind === 'cut' ? item.text : item.kind === 'note' ? item.title : '')),
    [
      'What was said before was summarised: 90.1k tokens became 8.2k',
      'The conversation was not shortened',
      'The conversation was taken back to an earlier message',
      'Limit reached: session cost',
      'a:b could not answer, so c:d is asked',
    ],
  );
});

test('a request that is sent again is the activity until then', () => {
  const [start, ...rest] = TURN;
  const agent = after([start!, event('retry', 1, { attempt: 1, delay: 1.2, reason: 'Busy.' })]);
  assert.equal(agent.activity, 'Retrying in 2 s, attempt 2: Busy.');
  assert.equal(after(rest, agent).activity, 'Done');
});

test('what a lost worker had read is taken back', () => {
  const [start] = TURN;
  const begun = after([start!, event('text_delta', 1, { text: 'It is on' })]);
  const agent = after([event('retry', 2, { attempt: 1, delay: 0, reason: 'Lost.' })], begun);
  assert.deepEqual(agent.items.length, begun.items.length - 1);
  const again = after([event('text_delta', 3, { text: 'One.' })], agent);
  assert.equal(again.items.length, begun.items.length);
});

test('how an answer ended is said once, in a note and in the status', () => {
  const warned = (about: 'cut_off' | 'refused' | 'no_answer'): AgentEvent =>
    event('warning', 3, { text: `It is ${about}.`, about });
  const ended = TURN.slice(-1);
  for (const [reason, about, activity] of [
    ['length', 'cut_off', 'Cut off'],
    ['refusal', 'refused', 'Refused'],
    ['stop', 'no_answer', 'No answer'],
  ] as const) {
    const agent = after([...TURN.slice(0, 1), text(1, 'so'), replied(2, reason), warned(about), ...ended]);
    assert.equal(agent.activity, activity);
    assert.deepEqual(
      agent.items.flatMap((item) => (item.kind === 'note' ? [item.title] : [])),
      [`It is ${about}.`],
    );
  }
});

test('a reply that was cut off before tools ran leaves the end of the turn alone', () => {
  const agent = after([...TURN.slice(0, 8), replied(6, 'length'), ...TURN.slice(9)]);
  assert.equal(agent.activity, 'Done');
});

test('prompts that were not sent because of a stop are kept apart from those that were removed', () => {
  const queued = (id: string): AgentEvent => event('queued', 8, { prompt_id: id, text: `text ${id}`, steer: false, join: true });
  const unqueued = (id: string, removed: boolean, returned: boolean): AgentEvent =>
    event('unqueued', 9, { prompt_id: id, removed, returned });
  const agent = after([
    ...RUNNING,
    ...['1', '2', '3', '4'].map(queued),
    unqueued('1', false, false),
    unqueued('2', true, false),
    unqueued('4', true, true),
    unqueued('3', true, true),
    unqueued('never', true, true),
  ]);
  assert.deepEqual([agent.queue, agent.returned], [[], ['text 4', 'text 3']]);
});
