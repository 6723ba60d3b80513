/** Events under test. */

import type { AgentEvent } from '../src/model/events.generated.ts';

type Type = AgentEvent['type'];
type Payload<T extends Type> = Omit<Extract<AgentEvent, { type: T }>, 'type' | 'agent_id' | 'turn' | 'seq' | 'time'>;

/** An event of agent `a` at a time. */
export function event<T extends Type>(type: T, time: number, payload: Payload<T>, agent = 'a'): AgentEvent {
  return { type, agent_id: agent, turn: 0, seq: 0, time, ...payload } as unknown as AgentEvent;
}

export const text = (time: number, value: string, agent = 'a'): AgentEvent =>
  event('text_delta', time, { text: value }, agent);

export const written = (time: number, id: string, name: string, json: string, characters: number): AgentEvent =>
  event('tool_args_delta', time, { id, name, text: json, display: { characters } });

export const replied = (time: number, stop_reason: 'stop' | 'tool_use' | 'length' | 'refusal'): AgentEvent =>
  event('message', time, { id: time, message: { type: 'assistant', stop_reason } });

const NONE = { cache_read_tokens: 0, cache_write_tokens: 0, thinking_tokens: 0 };

export const used = (time: number, cost: number | null, agent = 'a'): AgentEvent => {
  const delta = { ...NONE, input_tokens: 10, output_tokens: 2 };
  return event('usage_delta', time, { delta, total: delta, cost, total_cost: cost, context_tokens: 12 }, agent);
};

/** A turn of two parallel calls, one of which fails, and an answer. */
export const TURN: readonly AgentEvent[] = [
  event('turn_start', 0, { index: 0, model: 'm' }),
  event('thinking_delta', 1, { text: 'Hm. ' }),
  event('thinking_delta', 2, { text: 'So.' }),
  text(3, 'I '),
  text(3, 'look.'),
  written(4, '1', 'read', '{"pa', 4),
  written(4, '2', 'list', '{}', 2),
  written(5, '1', 'read', 'th": "x"}', 13),
  replied(6, 'tool_use'),
  used(6, 0.5),
  event('tool_start', 7, { id: '1', name: 'read', display: { key: 'x', arguments: [['path', 'x']] } }),
  event('tool_start', 7, { id: '2', name: 'list', display: { key: '', arguments: [] } }),
  event('tool_end', 9, { id: '1', name: 'read', result: 'no', error: true }),
  event('tool_end', 9, { id: '2', name: 'list', result: 'a', error: false }),
  text(10, 'Done.'),
  replied(11, 'stop'),
  event('turn_end', 11, { usage: { ...NONE, input_tokens: 10, output_tokens: 2 } }),
];

/** The turn while both calls run. */
export const RUNNING = TURN.slice(0, 12);
