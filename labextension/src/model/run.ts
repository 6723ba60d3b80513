/** The state of a run: that of each of its agents, and their items in one order. No DOM here. */

import type { AgentEvent, WorkerSpawned } from './events.generated.ts';
import { cutOff, fold, newAgent } from './agent-state.ts';
import { count, dollars } from './format.ts';
import type { AgentState, Item, PendingApproval, QueuedPrompt, Role, Spent } from './agent-state.ts';

/** An agent of the team that the run is of. */
export interface Member {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly role: Role;
  readonly model: string;
}

type Aliases = Readonly<Record<string, string>>;

/** What no event of the run says. */
export interface Facts {
  /** The limits that somebody has set, in tokens and US dollars; null for the usual ones. */
  readonly limits: { readonly tokens: number | null; readonly cost: number | null };
  /** What people call models, by "provider:model". */
  readonly aliases: Aliases;
  /** What only some agents call them, by the id of the agent. */
  readonly aliases_of_agents: Readonly<Record<string, Aliases>>;
}

export interface Run {
  readonly facts: Facts;
  /** The agents of the team by id, in the order in which they joined; empty if the run is of a single agent. */
  readonly members: ReadonlyMap<string, Member>;
  /** By id, in the order of their first events. */
  readonly agents: ReadonlyMap<string, AgentState>;
  /** Where each item is: the agent's id and the position among its items. Items are only ever appended. */
  readonly order: readonly (readonly [agent: string, at: number])[];
}

const NO_FACTS: Facts = { limits: { tokens: null, cost: null }, aliases: {}, aliases_of_agents: {} };

export const EMPTY: Run = { facts: NO_FACTS, members: new Map(), agents: new Map(), order: [] };

/** A run of these agents without events. */
export function runOf(members: readonly Member[], facts: Facts = NO_FACTS): Run {
  return { ...EMPTY, facts, members: new Map(members.map((member) => [member.id, member])) };
}

/** The run after `events`, each of which changes only its own agent. */
export function foldAll(run: Run, events: readonly AgentEvent[]): Run {
  if (events.length === 0) return run;
  const agents = new Map(run.agents);
  const added: (readonly [string, number])[] = [];
  let { members } = run;
  for (const event of events) {
    const id = event.agent_id;
    const before = agents.get(id) ?? newAgent(id);
    const after = fold(before, event);
    agents.set(id, after);
    for (let at = before.items.length; at < after.items.length; at++) added.push([id, at]);
    if (event.type === 'worker_spawned') members = withWorker(members, event);
  }
  return { ...run, members, agents, order: added.length === 0 ? run.order : [...run.order, ...added] };
}

/** The run after `event`. */
export function foldRun(run: Run, event: AgentEvent): Run {
  return foldAll(run, [event]);
}

function withWorker(members: Run['members'], event: WorkerSpawned): Run['members'] {
  const { worker_id: id, name, role, worker_type: type, model } = event;
  return new Map(members).set(id, { id, name, type: type ?? '', role, model: model ?? '' });
}

/** The run as far as it came when its kernel ended. */
export function cutOffRun(run: Run, time: number): Run {
  return { ...run, agents: new Map([...run.agents].map(([id, agent]) => [id, cutOff(agent, time)])) };
}

/** The items of all agents, in the order in which they began. */
export function itemsOf(run: Run): Item[] {
  return run.order.flatMap(([id, at]) => run.agents.get(id)?.items[at] ?? []);
}

/** Whether several agents take part, or may. */
export function isTeam(run: Run): boolean {
  return run.members.size > 1 || run.agents.size > 1 || [...run.agents.values()].some((agent) => agent.tasks.length > 0);
}

/** The name of an agent: in its team, as it was created, or else its id. */
export function nameOf(run: Run, id: string): string {
  return run.members.get(id)?.name || run.agents.get(id)?.name || id;
}

/** What people call the model that answers for an agent; empty if that is not known yet. */
export function modelNameOf(run: Run, id: string): string {
  const reference = run.agents.get(id)?.model ?? '';
  if (reference === '') return run.members.get(id)?.model ?? '';
  const { aliases, aliases_of_agents: own } = run.facts;
  return entry(entry(own, id) ?? {}, reference) ?? entry(aliases, reference) ?? reference;
}

/** An entry of an object that a message contains, whose keys may be names of what every object has. */
function entry<T>(entries: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(entries, key) ? entries[key] : undefined;
}

/** The calls that wait for approval, those that were requested first at the beginning. */
export function approvalsOf(run: Run): PendingApproval[] {
  const roleOf = (id: string): Role => run.members.get(id)?.role ?? '';
  return [...run.agents.values()]
    .flatMap(({ approvals }) => approvals.map((call) => ({ ...call, role: call.role || roleOf(call.agent) })))
    .sort((one, other) => one.deadline - other.deadline);
}

/** The prompts of the user that wait. A run whose own prompt waits has no agent at work yet. */
export function queueOf(run: Run): QueuedPrompt[] {
  return [...run.agents.values()].flatMap((agent) =>
    agent.since === null ? [] : agent.queue.filter((prompt) => prompt.sender === ''),
  );
}

/** The texts of prompts that go back to the user, because the run was stopped. */
export function returnedOf(run: Run): string[] {
  return [...run.agents.values()].flatMap((agent) => agent.returned);
}

/** The names of the agents by id; empty if there is only one, which need not be named. */
export function namesOf(run: Run): ReadonlyMap<string, string> {
  return new Map(isTeam(run) ? [...run.agents.keys(), ...run.members.keys()].map((id) => [id, nameOf(run, id)]) : []);
}

/** What the run is doing, in a few words. */
export function statusOf(run: Run): string {
  const agents = [...run.agents.values()];
  if (agents.some((agent) => agent.approvals.length > 0)) return 'Waiting for you';
  if (agents.length < 2) return agents[0]?.activity ?? 'Waiting';
  const busy = agents.filter((agent) => agent.status !== 'idle');
  const [first] = busy;
  if (first === undefined) return agents.at(-1)?.activity ?? '';
  return busy.length === 1 ? `${nameOf(run, first.id)}: ${first.activity}` : `${busy.length} agents running`;
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

/** Tokens and cost of all agents, in words and beside the limits that were set, as the saved output has them. */
export function figuresOf(run: Run): { readonly tokens: string; readonly cost: string } {
  const { input, output, cost, counted, estimated } = spentOf(run);
  const { limits } = run.facts;
  const beside = (limit: number | null, written: (limit: number) => string): string =>
    limit === null ? '' : ` of ${written(limit)}`;
  return {
    tokens: counted ? `${count(input + output)}${beside(limits.tokens, count)} tokens` : '',
    cost: cost === null ? '' : `${estimated ? 'at least ' : ''}${dollars(cost)}${beside(limits.cost, dollars)}`,
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
