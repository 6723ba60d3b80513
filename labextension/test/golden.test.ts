/** The model folds the recorded events of `tests/fixtures/events` to the states that `agent/state.py` gave. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import type { AgentEvent } from '../src/model/events.generated.ts';
import { newAgent } from '../src/model/agent-state.ts';
import type { AgentState, Entry, Item } from '../src/model/agent-state.ts';
import { EMPTY, foldAll, foldRun, itemsOf } from '../src/model/run.ts';
import type { Run } from '../src/model/run.ts';

const folder = new URL('../../tests/fixtures/events/', import.meta.url);
const lines = <T>(name: string): T[] =>
  readFileSync(new URL(name, folder), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
const EVENTS = lines<AgentEvent>('golden.jsonl');
const STATES = lines<Record<string, unknown>>('golden.states.jsonl');

/** The part of the state that Python has, too; `record.py` has the same. */
function projection(agent: AgentState): Record<string, unknown> {
  return {
    name: agent.name,
    model: agent.model,
    status: agent.status,
    turn: agent.turn,
    messages: agent.messages.map(({ id, message }) => [id, message.type, textOf(message)]),
    blocks: agent.items.flatMap((item) => blockOf(agent, item)),
    queue: agent.queue.map(({ id, text, steer }) => [id, text, steer]),
    running: agent.running.map(({ id, name }) => [id, name]),
    approvals: agent.approvals.map(({ id, name, deadline }) => [id, name, deadline]),
    workers: agent.workers.map(({ id, name, type, model }) => [id, name, type, model]),
    open_tasks: agent.tasks.flatMap((task) => (task.until === null ? [[task.id, task.kind, task.target]] : [])),
    compacting: agent.compacting,
    context_tokens: agent.contextTokens,
    usage: agent.usage,
    cost: agent.cost,
    error: agent.error,
    stopped: agent.stopped,
  };
}

function textOf({ content = [] }: Entry['message']): string {
  return content.map((part) => (part.type === 'text' || part.type === 'tool_result' ? part.text : '')).join('');
}

/** Items of messages that were taken back stay in sight, but are no part of the conversation. */
function blockOf(agent: AgentState, item: Item): string[][] {
  if (!('step' in item)) return [];
  const { message } = item;
  const current = message === null && agent.writing && item.step === agent.step;
  if (!current && !agent.messages.some(({ id }) => id === message)) return [];
  if (item.kind === 'call') return [['call', item.id, item.name]];
  return [[item.kind === 'prose' ? 'text' : 'thinking', item.text]];
}

test('each event changes what it changes in Python', () => {
  let run: Run = EMPTY;
  EVENTS.forEach((event, at) => {
    const before = projection(run.agents.get(event.agent_id) ?? newAgent(event.agent_id));
    run = foldRun(run, event);
    const after = projection(run.agents.get(event.agent_id) as AgentState);
    const changed = Object.entries(after).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key]));
    assert.deepEqual({ type: event.type, ...Object.fromEntries(changed) }, STATES[at], `line ${at + 1}`);
  });
  assert.equal(STATES.length, EVENTS.length);
});

/** The same events as the kernel sends them, one line for each: written by the Python test that runs this one. */
const FRAMES = process.env['PLANCK_NB_FRAMES'];

test('events as the kernel sends them lead to the same states', { skip: FRAMES === undefined }, () => {
  const sent = lines<AgentEvent>(String(FRAMES));
  // The browser is not sent the texts of messages: it has those of replies, and does not show the others.
  const comparable = (run: Run): unknown[] =>
    [...run.agents.values()].map((agent) => {
      const { messages, ...rest } = projection(agent);
      return { ...rest, messages: (messages as unknown[][]).map(([id, type]) => [id, type]) };
    });
  let [received, stored]: Run[] = [EMPTY, EMPTY];
  EVENTS.forEach((event, at) => {
    stored = foldRun(stored as Run, event);
    received = foldRun(received as Run, sent[at] as AgentEvent);
    assert.deepEqual(comparable(received), comparable(stored), `line ${at + 1}`);
  });
});

test('stored events, which are all but the transient ones, show the same items', () => {
  const transient = ['text_delta', 'thinking_delta', 'tool_args_delta', 'tool_progress'];
  const stored = EVENTS.filter(({ type }) => !transient.includes(type));
  const shown = (events: readonly AgentEvent[]): unknown[] =>
    itemsOf(foldAll(EMPTY, events))
      .filter(({ agent }) => agent === 'agent-1')
      .map((item) => ('text' in item ? [item.kind, item.text] : item.kind === 'call' ? [item.id, item.state] : []));
  assert.deepEqual(shown(stored), shown(EVENTS));
});
