import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Connection } from '../src/model/connection.ts';
import type { Command } from '../src/model/connection.ts';
import type { AgentEvent } from '../src/model/events.generated.ts';
import { approvalsOf, EMPTY, figuresOf, foldAll, itemsOf, modelNameOf, namesOf, queueOf, spentOf, statusOf, timesOf } from '../src/model/run.ts';
import type { Run } from '../src/model/run.ts';
import { event, RUNNING, replied, text, TURN, used } from './events.ts';

const queued = (id: string, value: string): AgentEvent => event('queued', 1, { prompt_id: id, text: value, steer: false });
const texts = (run: Run): unknown[] => itemsOf(run).map((item) => ('text' in item ? [item.agent, item.text] : []));

test('prompts are shown in the queue while the run goes on, but not its own', () => {
  const own = foldAll(EMPTY, [queued('own', 'the prompt')]);
  assert.deepEqual([queueOf(own), statusOf(own)], [[], 'Queued']);
  const run = foldAll(own, [
    event('unqueued', 1, { prompt_id: 'own' }),
    TURN[0] as AgentEvent,
    queued('1', 'a'),
    queued('2', 'b'),
    queued('1', 'c'),
    event('unqueued', 1, { prompt_id: '2' }),
  ]);
  assert.deepEqual(queueOf(run).map((prompt) => [prompt.id, prompt.text]), [['1', 'c']]);
});

test('agents keep their own state, and their items stand in the order in which they began', () => {
  const start = (agent: string): AgentEvent => event('turn_start', 0, { index: 0, model: 'm' }, agent);
  const run = foldAll(EMPTY, [
    start('a'),
    text(1, 'one ', 'a'),
    start('b'),
    text(2, 'two ', 'b'),
    text(3, 'three', 'a'),
    used(4, 0.5, 'a'),
    used(4, 0.25, 'b'),
    text(5, 'four', 'b'),
    event('aborted', 6, {}, 'a'),
  ]);
  assert.deepEqual(texts(run), [
    ['a', 'one three'],
    ['b', 'two four'],
    ['a', 'The text so far is kept.'],
  ]);
  assert.deepEqual([...run.agents.values()].map((agent) => agent.status), ['idle', 'streaming']);
  assert.deepEqual(spentOf(run), { input: 20, output: 4, cost: 0.75, counted: true, estimated: false });
  assert.deepEqual(timesOf(run), { since: 0, until: null });
  assert.equal(statusOf(run), 'b: Writing');
  assert.equal(statusOf(foldAll(run, [start('a')])), '2 agents running');
});

test('a single agent is not named; several are, by name or id', () => {
  const request = (agent: string): AgentEvent =>
    event('approval_request', 1, { id: '1', name: 'read', deadline: 90 }, agent);
  const one = foldAll(EMPTY, [request('a')]);
  assert.equal(namesOf(one).size, 0);
  const two = foldAll(one, [
    event('agent_started', 1, { name: 'helper', agent_type: '', model: 'm' } as never, 'b'),
    request('b'),
  ]);
  assert.deepEqual([...namesOf(two)], [['a', 'a'], ['b', 'helper']]);
  assert.deepEqual(approvalsOf(two).map(({ agent, id }) => [agent, id]), [['a', '1'], ['b', '1']]);
  assert.equal(statusOf(two), 'Waiting for you');
});

test('limits that were set are beside what was used, as in the saved output', () => {
  const connection = new Connection(() => {});
  const limited = (tokens: number | null, cost: number | null) => ({ limits: { tokens, cost }, aliases: {}, aliases_of_agents: {} });
  connection.receive({ type: 'snapshot', to: 1, now: 0, facts: limited(null, 0.2), events: [used(0, 0.0634)] });
  assert.deepEqual(figuresOf(connection.run), { tokens: '12 tokens', cost: '$0.063 of $0.200' });
  connection.receive({ type: 'frame', from: 1, to: 2, now: 0, events: [used(1, 0.05)] });
  assert.equal(figuresOf(connection.run).cost, '$0.113 of $0.200');
  connection.receive({ type: 'frame', from: 2, to: 3, now: 0, facts: limited(5000, null), events: [used(2, null)] });
  assert.deepEqual(figuresOf(connection.run), { tokens: '36 of 5.0k tokens', cost: '' });
  connection.end();
  assert.deepEqual(figuresOf(connection.run).tokens, '36 of 5.0k tokens');
  assert.deepEqual(figuresOf(EMPTY), { tokens: '', cost: '' });
});

test('a cost that is partly estimated is the least that the run took', () => {
  const estimated = { ...used(1, 0.05), estimated: true } as AgentEvent;
  assert.equal(figuresOf(foldAll(EMPTY, [used(0, 0.0634), estimated])).cost, 'at least $0.113');
});

test('a model is named by its alias', () => {
  const start = (agent: string, model: string): AgentEvent => event('turn_start', 0, { index: 0, model }, agent);
  const member = { id: 'c', name: 'c', type: '', role: 'worker', model: 'cheap' } as const;
  const events = [start('a', 'openai:gpt-4.1'), start('b', 'toString'), start('e', 'openai:gpt-4.1')];
  const aliases = { 'openai:gpt-4.1': 'fast' };
  const own = { e: { 'openai:gpt-4.1': 'deep' } };
  const facts = { limits: { tokens: null, cost: null }, aliases, aliases_of_agents: own };
  const connection = new Connection(() => {});
  connection.receive({ type: 'snapshot', to: 3, now: 0, members: [member], facts, events });
  const names = ['a', 'b', 'c', 'd', 'e'].map((id) => modelNameOf(connection.run, id));
  assert.deepEqual(names, ['fast', 'toString', 'cheap', '', 'deep']);
});

test('a gap requests everything once, and the snapshot replaces the run', () => {
  const sent: Command[] = [];
  let time = 0;
  const connection = new Connection((command) => sent.push(command), () => time);
  connection.receive({ type: 'frame', from: 0, to: 1, now: 0, events: [text(0, 'a')] });
  connection.receive({ type: 'frame', from: 2, to: 3, now: 0, events: [text(0, 'c')] });
  connection.receive({ type: 'frame', from: 3, to: 4, now: 0, events: [text(0, 'd')] });
  assert.deepEqual(sent, [{ type: 'resync' }]);
  time = 4000;
  connection.receive({ type: 'frame', from: 4, to: 5, now: 0, events: [text(0, 'e')] });
  assert.equal(sent.length, 2);
  connection.receive({ type: 'snapshot', to: 5, now: 9, events: [text(0, 'abcde')] });
  connection.receive({ type: 'frame', from: 5, to: 6, now: 9, events: [text(0, 'f')] });
  assert.deepEqual(texts(connection.run), [['a', 'abcdef']]);
  assert.equal(connection.now(), 9);
});

test('a run that no view shows any more is not kept, unless a view requests it again', () => {
  const connection = new Connection(() => {});
  connection.resync();
  connection.release();
  connection.receive({ type: 'snapshot', to: 1, now: 0, events: [text(0, 'late')] });
  assert.equal(connection.hasRun, false);
  connection.resync();
  connection.receive({ type: 'snapshot', to: 1, now: 0, events: [text(0, 'again')] });
  assert.deepEqual(texts(connection.run), [['a', 'again']]);
});

test('nothing runs once the kernel has ended, and the run goes on if it sends again', () => {
  let time = 8000;
  let changes = 0;
  const connection = new Connection(() => {}, () => time);
  connection.onChange(() => changes++);
  connection.receive({ type: 'frame', from: 0, to: 12, now: 8, events: RUNNING });
  time = 20_000;
  connection.end();
  connection.end();
  const states = (): string[] =>
    itemsOf(connection.run).flatMap((item) => (item.kind === 'call' ? [`${item.state} ${item.until}`] : []));
  assert.deepEqual(states(), ['stop 20', 'stop 20']);
  assert.deepEqual([connection.ended, timesOf(connection.run).until, changes], [true, 20, 2]);
  connection.receive({ type: 'frame', from: 12, to: 13, now: 21, events: TURN.slice(12, 13) });
  assert.deepEqual(states(), ['bad 9', 'run null']);
  assert.deepEqual([connection.ended, timesOf(connection.run).until], [false, null]);
});

test('refused commands are reported to the listeners', () => {
  const reasons: string[] = [];
  const connection = new Connection(() => {});
  const unsubscribe = connection.onRefusal(({ reason }) => reasons.push(reason));
  connection.receive({ type: 'refused', reason: 'no', text: '' });
  unsubscribe();
  connection.receive({ type: 'refused', reason: 'not again', text: '' });
  assert.deepEqual(reasons, ['no']);
});

test('a second turn begins where the first one ended', () => {
  const run = foldAll(EMPTY, [...TURN, event('turn_start', 12, { index: 1, model: 'm' }), text(13, 'x'), replied(14, 'stop')]);
  assert.deepEqual(timesOf(run), { since: 0, until: null });
});
