/** The state of a run: that of each of its agents, and their items in one order. No DOM here. */

import type { AgentEvent } from './events.generated.ts';
import { cutOff, fold, newAgent } from './agent-state.ts';
import type { AgentState, Item, PendingApproval, QueuedPrompt, Spent } from './agent-state.ts';

export interface Run {
  /** By id, in the order of their first events. */
  readonly agents: ReadonlyMap<string, AgentState>;
  /** Where each item is: the agent's id and the position among its items. Items are only ever appended. */
  readonly order: readonly (readonly [agent: string, at: number])[];
}

export const EMPTY: Run = { agents: new Map(), order: [] };

export function foldAll(run: Run, events: readonly AgentEvent[]): Run {
  return events.reduce(foldRun, run);
}

/** The run after `event`, which changes only its own agent. */
export function foldRun(run: Run, event: AgentEvent): Run {
  const id = event.agent_id;
  const before = run.agents.get(id) ?? newAgent(id);
  const after = fold(before, event);
  const added = after.items.slice(before.items.length).map((_, at) => [id, before.items.length + at] as const);
  return {
    agents: new Map(run.agents).set(id, after),
    order: added.length === 0 ? run.order : [...run.order, ...added],
  };
}

/** The run as far as it came when its kernel ended. */
export function cutOffRun(run: Run, time: number): Run {
  return { ...run, agents: new Map([...run.agents].map(([id, agent]) => [id, cutOff(agent, time)])) };
}

/** The items of all agents, in the order in which they began. */
export function itemsOf(run: Run): Item[] {
  return run.order.flatMap(([id, at]) => run.agents.get(id)?.items[at] ?? []);
}

export function approvalsOf(run: Run): PendingApproval[] {
  return [...run.agents.values()].flatMap((agent) => agent.approvals);
}

/** The prompts that wait. A run whose own prompt waits has no agent at work yet. */
export function queueOf(run: Run): QueuedPrompt[] {
  return [...run.agents.values()].flatMap((agent) => (agent.since === null ? [] : agent.queue));
}

/** The texts of prompts that go back to the user, because the run was stopped. */
export function returnedOf(run: Run): string[] {
  return [...run.agents.values()].flatMap((agent) => agent.returned);
}

/** The names of the agents by id; empty if there is only one, which need not be named. */
export function namesOf(run: Run): ReadonlyMap<string, string> {
  return new Map(run.agents.size < 2 ? [] : [...run.agents].map(([id, agent]) => [id, agent.name || id]));
}

/** What the run is doing, in a few words. */
export function statusOf(run: Run): string {
  const agents = [...run.agents.values()];
  if (agents.some((agent) => agent.approvals.length > 0)) return 'Waiting for you';
  if (agents.length < 2) return agents[0]?.activity ?? 'Waiting';
  const busy = agents.filter((agent) => agent.status !== 'idle');
  const [first] = busy;
  if (first === undefined) return agents.at(-1)?.activity ?? '';
  return busy.length === 1 ? `${first.name || first.id}: ${first.activity}` : `${busy.length} agents running`;
}

/** Model replies begun so far. */
export function stepOf(run: Run): number {
  return [...run.agents.values()].reduce((step, agent) => step + agent.step, 0);
}

/** Tokens and cost of all agents. */
export function spentOf(run: Run): Spent {
  const counted = [...run.agents.values()].map((agent) => agent.spent).filter((spent) => spent.counted);
  const sum = (of: (spent: Spent) => number): number => counted.reduce((total, spent) => total + of(spent), 0);
  const priced = counted.length > 0 && counted.every((spent) => spent.cost !== null);
  return {
    input: sum((spent) => spent.input),
    output: sum((spent) => spent.output),
    cost: priced ? sum((spent) => spent.cost ?? 0) : null,
    counted: counted.length > 0,
    estimated: counted.some((spent) => spent.estimated),
  };
}

/** When the run began, and when the last of its agents ended; null for what has not happened. */
export function timesOf(run: Run): { readonly since: number | null; readonly until: number | null } {
  const begun = [...run.agents.values()].filter((agent) => agent.since !== null);
  if (begun.length === 0) return { since: null, until: null };
  const ended = begun.every((agent) => agent.until !== null);
  return {
    since: Math.min(...begun.map((agent) => agent.since ?? Infinity)),
    until: ended ? Math.max(...begun.map((agent) => agent.until ?? -Infinity)) : null,
  };
}
