import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import type { AgentEvent } from '../src/model/events.generated.ts';
import { approvalsOf, EMPTY, foldAll, isTeam, queueOf, runOf, statusOf } from '../src/model/run.ts';
import type { Member, Run } from '../src/model/run.ts';
import { exchangesOf, FEW, lanesOf, leaderOf, newsOf, restOf, sharedModelOf, shownLanes, tasksOfApprovals } from '../src/model/team.ts';
import { event, text, used } from './events.ts';

/** The run that `tests/fixtures/team/record.py` has recorded. */
const EVENTS = readFileSync(new URL('../../tests/fixtures/team/events.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line) as AgentEvent);

const member = (id: string, role: Member['role'] = 'worker'): Member => ({ id, name: `the ${id}`, type: 'w', role, model: 'm' });
const start = (agent: string): AgentEvent => event('turn_start', 0, { index: 0, model: 'm' }, agent);
const over = (agent: string): AgentEvent => event('turn_end', 5, { usage: {} } as never, agent);
const given = (id: string, agent: string, target: string, kind: 'ask' | 'delegate' = 'delegate'): AgentEvent =>
  event('delegated', 1, { task_id: id, kind, target_id: target, target_name: '', text: `task ${id}`, call_id: '' }, agent);
const answered = (id: string, agent: string, error = false): AgentEvent =>
  event(
    'responded',
    2,
    { task_id: id, kind: 'delegate', target_id: '', target_name: '', text: 'done', error, automatic: false, task_turn: 0 },
    agent,
  );
const request = (agent: string, id: string, deadline: number): AgentEvent =>
  event('approval_request', 1, { id, name: 'edit', deadline }, agent);

const TEAM = runOf([member('b'), member('a', 'orchestrator'), member('c')]);
const states = (run: Run): string[][] => lanesOf(run).map(({ name, state, words }) => [name, state, words]);

test('the recorded run has the exchanges that Python saves', () => {
  const run = foldAll(EMPTY, EVENTS);
  const shown = exchangesOf(run).map(({ from, to, kind, text, state, responses }) => [
    `${from} → ${to}`,
    kind,
    text,
    state,
    responses.map((response) => response.text),
  ]);
  assert.deepEqual(shown, [
    ['lead-1 → builder', 'delegate', 'Clean the March export.\nBoth date formats.', 'answered', ['Cleaned, **3** rows rejected.']],
    ['lead-1 → tester', 'delegate', 'Run the tests.', 'answered', ['All 96 tests pass.']],
    ['lead-1 → broken', 'ask', 'Are you there?', 'failed', ['broken could not answer: the line broke']],
    ['builder-1 → critic', 'ask', 'Is it right?', 'answered', ['Yes, it is right.']],
  ]);
  assert.equal(leaderOf(run), 'lead-1');
  const words = Object.fromEntries(lanesOf(run).map((lane) => [lane.id, lane.words]));
  assert.deepEqual(words, {
    ...{ 'lead-1': 'Idle', 'builder-1': 'Idle', 'tester-1': 'Idle', 'critic-1': 'Idle' },
    'broken-1': 'Failed',
  });
});

test('every prefix of the recorded run can be shown', () => {
  EVENTS.forEach((_, at) => {
    const run = foldAll(TEAM, EVENTS.slice(0, at));
    assert.equal(lanesOf(run)[0]?.id, 'a');
    assert.ok(exchangesOf(run).length <= 4);
  });
});

test('the orchestrator comes first, the others as they joined, and an announced team is one before its first event', () => {
  assert.ok(isTeam(TEAM));
  assert.ok(!isTeam(EMPTY));
  assert.deepEqual(lanesOf(TEAM).map(({ id, leads }) => [id, leads]), [['a', true], ['b', false], ['c', false]]);
  const spawned = { worker_id: 'd', name: 'dora', role: 'worker', worker_type: 'builder', model: 'm2' } as const;
  const run = foldAll(TEAM, [event('worker_spawned', 1, spawned, 'a')]);
  const dora = lanesOf(run).at(-1);
  assert.deepEqual([dora?.name, dora?.type, dora?.role, dora?.model], ['dora', 'builder', 'worker', 'm2']);
  assert.deepEqual([sharedModelOf(TEAM), sharedModelOf(run)], ['m', null]);
  const gone = foldAll(run, [event('worker_exit', 2, { worker_id: 'd', name: 'dora', reason: 'x', normal: true }, 'a')]);
  assert.deepEqual(states(gone).at(-1), ['dora', 'stop', 'Stopped']);
});

test('what an agent does is said in words', () => {
  const begun = foldAll(TEAM, [start('a'), given('1', 'a', 'b'), given('2', 'a', 'c'), start('b'), text(3, 'One. Two', 'b')]);
  assert.deepEqual(states(begun), [
    ['the a', 'run', 'Working'],
    ['the b', 'run', 'Working'],
    ['the c', 'idle', 'Idle'],
  ]);
  assert.deepEqual(lanesOf(begun).map(({ line }) => line), ['Waiting for the model', 'Two', '']);
  const waiting = foldAll(begun, [over('a'), given('3', 'b', 'c', 'ask')]);
  assert.deepEqual(states(waiting).map(([, , words]) => words), ['Waiting for the b and the c', 'Waiting for the c', 'Idle']);
  const asked = foldAll(waiting, [start('c'), request('c', 'x', 90), answered('1', 'a', true), event('aborted', 4, {}, 'b')]);
  assert.deepEqual(states(asked), [
    ['the a', 'wait', 'Waiting for the c'],
    ['the b', 'wait', 'Waiting for the c'],
    ['the c', 'ask', 'Needs approval'],
  ]);
  const failed = foldAll(asked, [answered('3', 'b'), event('error', 6, { reason: 'No key.', kind: 'X' }, 'c')]);
  assert.deepEqual(states(failed).slice(1), [['the b', 'stop', 'Stopped'], ['the c', 'bad', 'Failed']]);
});

test('approvals of all agents are in one order, with the task that each agent works on', () => {
  const waits = { prompt_id: '2', text: 'task 2', steer: false, sender_id: 'a' } as never;
  const run = foldAll(TEAM, [
    ...[start('a'), given('1', 'a', 'b'), given('2', 'a', 'b'), start('b')],
    event('queued', 1, waits, 'b'),
    ...[request('c', '9', 80), request('b', '9', 70), request('a', '1', 60)],
  ]);
  const approvals = approvalsOf(run);
  assert.deepEqual(approvals.map(({ agent, role }) => [agent, role]), [['a', 'orchestrator'], ['b', 'worker'], ['c', 'worker']]);
  assert.deepEqual([...tasksOfApprovals(run, approvals)], [['b', 'Task from the a: task 1']]);
  assert.equal(statusOf(run), 'Waiting for you');
  assert.deepEqual(queueOf(run), [], 'what agents send each other is not the queue of the user');
  assert.equal(exchangesOf(run)[1]?.state, 'waiting');
});

test('each task and each answer is news once', () => {
  const none = exchangesOf(TEAM);
  const one = exchangesOf(foldAll(TEAM, [given('1', 'a', 'b'), given('2', 'b', 'c', 'ask')]));
  assert.deepEqual(newsOf(none, one), ['the a gives the b a task.', 'the b asks the c a question.']);
  assert.deepEqual(newsOf(one, one), []);
  const two = exchangesOf(foldAll(TEAM, [given('1', 'a', 'b'), given('2', 'b', 'c', 'ask'), answered('1', 'a'), answered('2', 'b', true)]));
  assert.deepEqual(newsOf(one, two), ['the b answered the a.', 'the c did not answer the b.']);
});

test('of many agents those at rest are a count', () => {
  const many = runOf([member('a', 'orchestrator'), ...Array.from({ length: 199 }, (_, at) => member(`w${at}`))]);
  const run = foldAll(many, [start('a'), start('w7'), start('w8'), over('w8')]);
  const lanes = lanesOf(run);
  assert.deepEqual(shownLanes(lanes, new Set(['w9'])).map(({ id }) => id), ['a', 'w7', 'w9']);
  assert.equal(restOf(lanes.slice(3)), '196 idle, 1 working');
  assert.equal(shownLanes(lanes.slice(0, FEW), new Set()).length, FEW);
});

test('cost and tokens are of each agent', () => {
  const run = foldAll(TEAM, [start('a'), used(1, 0.5, 'a'), used(1, 0.25, 'b'), used(2, 0.25, 'b')]);
  assert.deepEqual(lanesOf(run).map(({ spent }) => [spent.input, spent.cost]), [[10, 0.5], [20, 0.5], [0, null]]);
});

test('two hundred agents and many events are folded in little time', () => {
  const ids = Array.from({ length: 200 }, (_, at) => `w${at}`);
  const events = ids.flatMap((id) => [start(id), ...Array.from({ length: 50 }, (_, at) => text(at, `word${at} `, id)), over(id)]);
  const began = performance.now();
  const run = foldAll(runOf(ids.map((id) => member(id))), events);
  lanesOf(run);
  exchangesOf(run);
  assert.ok(performance.now() - began < 500, `${performance.now() - began} ms`);
  assert.equal(run.order.length, 200);
});
