/** What the agents of a team are doing, and the tasks that they give each other. No DOM here. */

import type { AgentState, Item, PendingApproval, Response, Spent, Task } from './agent-state.ts';
import { newAgent } from './agent-state.ts';
import { intention } from './approval-text.ts';
import { lastSentence } from './format.ts';
import { modelNameOf, nameOf } from './run.ts';
import type { Member, Run } from './run.ts';

/** `run`: it works. `ask`: a call of it needs approval. `wait`: it waits for other agents. `bad`: its turn failed. */
export type LaneState = 'run' | 'ask' | 'wait' | 'idle' | 'bad' | 'stop';

/** One agent of a team. */
export interface Lane extends Member {
  readonly leads: boolean;
  readonly state: LaneState;
  /** The state in words. */
  readonly words: string;
  /** What it is doing exactly: the newest line that it writes, the tool that runs, the call that needs approval. */
  readonly line: string;
  readonly spent: Spent;
  /** Its turn can be stopped and steered. */
  readonly busy: boolean;
}

/** A task that one agent gave to another. */
export interface Exchange {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly kind: Task['kind'];
  readonly text: string;
  readonly since: number;
  readonly state: 'waiting' | 'working' | 'answered' | 'failed';
  readonly responses: readonly Response[];
}

/** More agents than this are not all shown: those that are idle become a count. */
export const FEW = 12;

/** The id of the agent that leads: the orchestrator, or else the agent that began. */
export function leaderOf(run: Run): string {
  const leads = ({ role }: { role: string }): boolean => role === 'orchestrator';
  const leader = [...run.members.values()].find(leads) ?? [...run.agents.values()].find(leads);
  return leader?.id ?? [...run.agents.keys()][0] ?? '';
}

/** An agent's items. */
export function itemsOfAgent(run: Run, id: string): readonly Item[] {
  return run.agents.get(id)?.items ?? [];
}

/** Calls which give a task; the list of tasks shows them. */
const TASK_TOOLS = new Set(['ask_agent', 'delegate_task']);

/** By an agent's items: equal items give an equal result. */
const ownItems = new WeakMap<readonly Item[], readonly Item[]>();

/** The leader's items, without the calls which gave a task. */
export function itemsOfLeader(run: Run): readonly Item[] {
  const all = itemsOfAgent(run, leaderOf(run));
  const known = ownItems.get(all);
  if (known !== undefined) return known;
  const isTask = (item: Item): boolean =>
    item.kind === 'call' && TASK_TOOLS.has(item.name) && (item.state === 'run' || item.state === 'done');
  const own = all.some(isTask) ? all.filter((item) => !isTask(item)) : all;
  ownItems.set(all, own);
  return own;
}

/** The agents, the one that leads first and the others in the order in which they joined. */
export function lanesOf(run: Run): Lane[] {
  const leader = leaderOf(run);
  const ids = new Set([leader, ...run.members.keys(), ...run.agents.keys()]);
  ids.delete('');
  const exited = new Set([...run.agents.values()].flatMap((agent) => agent.formerWorkers.map(({ id }) => id)));
  return [...ids].map((id) => {
    const agent = run.agents.get(id) ?? newAgent(id);
    const member = run.members.get(id);
    return {
      id,
      name: nameOf(run, id),
      type: member?.type || agent.type,
      role: member?.role || agent.role,
      model: modelNameOf(run, id),
      leads: id === leader,
      spent: agent.spent,
      busy: agent.status !== 'idle',
      ...doing(run, agent, agent.stopped || exited.has(id)),
    };
  });
}

/** What an agent was asked to do when it requested approval: a task or a question, behind who gave it. */
export function tasksOfApprovals(run: Run, approvals: readonly PendingApproval[]): ReadonlyMap<string, string> {
  if (approvals.length === 0) return new Map();
  const given = tasksByTarget(run);
  return new Map(
    approvals.flatMap(({ agent: id }) => {
      const agent = run.agents.get(id);
      const task = agent === undefined ? undefined : currentTask(agent, given.get(id) ?? []);
      if (task === undefined || task.until !== null) return [];
      return [[id, `${task.kind === 'ask' ? 'Question' : 'Task'} from ${task.from}: ${task.text}`] as const];
    }),
  );
}

/** All tasks, in the order in which they were given. */
export function exchangesOf(run: Run): Exchange[] {
  return [...run.agents.values()]
    .flatMap((delegator) =>
      delegator.tasks.map(({ id, kind, text, since, until, target, targetName, responses, failed }) => {
        const waiting = run.agents.get(target)?.queue.some((prompt) => prompt.id === id) === true;
        return {
          ...{ id, kind, text, since, responses },
          from: nameOf(run, delegator.id),
          to: targetName || nameOf(run, target),
          state: until === null ? (waiting ? 'waiting' : 'working') : failed ? 'failed' : 'answered',
        } as const;
      }),
    )
    .sort((one, other) => one.since - other.since);
}

/** The sentences about what is in `after` and was not in `before`. */
export function newsOf(before: readonly Exchange[], after: readonly Exchange[]): string[] {
  const known = new Map(before.map((exchange) => [exchange.id, exchange]));
  return after.flatMap(({ id, from, to, kind, state, responses }) => {
    const old = known.get(id);
    const given = old === undefined ? [`${from} ${kind === 'ask' ? `asks ${to} a question` : `gives ${to} a task`}.`] : [];
    const answered = responses.length > (old?.responses.length ?? 0);
    const ended = state === 'failed' && old?.state !== 'failed';
    return [...given, ...(ended ? [`${to} did not answer ${from}.`] : answered ? [`${to} answered ${from}.`] : [])];
  });
}

/** The lanes to show of many: all that are not at rest, and those in `keep`. */
export function shownLanes(lanes: readonly Lane[], keep: ReadonlySet<string>): readonly Lane[] {
  return lanes.length <= FEW ? lanes : lanes.filter((lane) => lane.leads || !atRest(lane) || keep.has(lane.id));
}

/** The leader, then the lanes which wait for the user, then the others in order. */
export function waitingFirst(lanes: readonly Lane[]): readonly Lane[] {
  const rank = ({ leads, state }: Lane): number => (leads ? 0 : state === 'ask' ? 1 : 2);
  return lanes.toSorted((one, other) => rank(one) - rank(other));
}

/** The model of all agents; null if they have several, so that each row names its own. */
export function sharedModelOf(run: Run): string | null {
  const ids = new Set([...run.members.keys(), ...run.agents.keys()]);
  const models = new Set([...ids].map((id) => modelNameOf(run, id)));
  models.delete('');
  return models.size > 1 ? null : ([...models][0] ?? '');
}

/** What the lanes that are not shown are doing, in words. */
export function restOf(hidden: readonly Lane[]): string {
  const rest = hidden.filter(atRest).length;
  const more = hidden.length - rest;
  return [rest > 0 ? `${rest} idle` : '', more > 0 ? `${more} working` : ''].filter((part) => part !== '').join(', ');
}

function atRest({ state }: Lane): boolean {
  return state === 'idle' || state === 'stop';
}

interface GivenTask extends Task {
  /** The name of the agent that gave it. */
  readonly from: string;
}

function tasksByTarget(run: Run): ReadonlyMap<string, readonly GivenTask[]> {
  const found = new Map<string, GivenTask[]>();
  for (const delegator of run.agents.values()) {
    for (const task of delegator.tasks) {
      const given = { ...task, from: nameOf(run, delegator.id) };
      found.get(task.target)?.push(given) ?? found.set(task.target, [given]);
    }
  }
  return found;
}

/** The task that an agent works on, or the newest one if it works on none. */
function currentTask(agent: AgentState, given: readonly GivenTask[]): GivenTask | undefined {
  const waits = new Set(agent.queue.map(({ id }) => id));
  const taken = given.filter(({ id }) => !waits.has(id));
  const newest = (tasks: readonly GivenTask[]): GivenTask | undefined =>
    tasks.reduce<GivenTask | undefined>((best, task) => (best !== undefined && best.since > task.since ? best : task), undefined);
  return newest(taken.filter(({ until }) => until === null)) ?? newest(taken);
}

function doing(run: Run, agent: AgentState, stopped: boolean): Pick<Lane, 'state' | 'words' | 'line'> {
  const [approval] = agent.approvals;
  if (approval !== undefined) {
    const { verb, target } = intention(approval.display);
    return { state: 'ask', words: 'Needs approval', line: `${approval.name} ${verb} ${target}`.trimEnd() };
  }
  const line = newestLine(agent);
  if (stopped) return { state: 'stop', words: 'Stopped', line };
  const awaited = agent.tasks.filter(({ until }) => until === null);
  if (agent.status !== 'idle') {
    const asked = awaited.filter(({ kind }) => kind === 'ask');
    if (asked.length === 0) return { state: 'run', words: 'Working', line: line || agent.activity };
    return { state: 'wait', words: waitsFor(run, asked), line: oneLine(asked.at(-1)?.text ?? '') };
  }
  if (awaited.length > 0) return { state: 'wait', words: waitsFor(run, awaited), line };
  if (agent.error !== null) return { state: 'bad', words: 'Failed', line: agent.error };
  if (agent.activity === 'Stopped') return { state: 'stop', words: 'Stopped', line };
  return { state: 'idle', words: 'Idle', line };
}

function waitsFor(run: Run, tasks: readonly Task[]): string {
  const names = [...new Set(tasks.map(({ target, targetName }) => targetName || nameOf(run, target)))];
  const rest = names.length > 2 ? ` and ${names.length - 1} more` : '';
  return `Waiting for ${rest === '' ? names.join(' and ') : names[0]}${rest}`;
}

/** The running tool, or the last line of the newest text. */
function newestLine(agent: AgentState): string {
  const item = agent.items.findLast(({ kind }) => kind === 'prose' || kind === 'thinking' || kind === 'call');
  if (item?.kind === 'call') return `${item.name} ${item.key}`.trim();
  return item?.kind === 'prose' || item?.kind === 'thinking' ? lastSentence(item.text) : '';
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
