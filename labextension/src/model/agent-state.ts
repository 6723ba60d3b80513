/**
 * The state of an agent after its events so far, as a pure fold. No DOM here.
 *
 * `agent/state.py` folds the same events; `tests/fixtures/events` holds a recording on which both must agree. Times are
 * in seconds since the epoch, on the kernel's clock.
 */

import type * as ev from './events.generated.ts';
import { errorTitle } from './error-titles.ts';
import { count } from './format.ts';

export type Argument = readonly [name: string, text: string];

interface ItemBase {
  /** The id of the agent. */
  readonly agent: string;
}

/** A part of a reply. */
interface ReplyItem extends ItemBase {
  /** The number of the reply, from 1. */
  readonly step: number;
  /** The id of the reply's message once it is complete. */
  readonly message: number | null;
}

export interface Prose extends ReplyItem {
  readonly kind: 'prose';
  readonly text: string;
  /** More text may follow. */
  readonly open: boolean;
}

export interface Thinking extends ReplyItem {
  readonly kind: 'thinking';
  readonly text: string;
  readonly since: number;
  readonly until: number | null;
}

/**
 * `form`: the model is writing the arguments. `wait`: they are complete and the tool has not started. `ask`: the call
 * needs approval. `run`: the tool is running. The others are final: `done`, `bad` (failed), `deny` (denied) and `stop`.
 */
export type CallState = 'form' | 'wait' | 'ask' | 'run' | 'done' | 'bad' | 'deny' | 'stop';

export interface Call extends ReplyItem {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  readonly state: CallState;
  /** JSON text of the arguments as far as it was sent, while the model is writing them. */
  readonly json: string;
  /** Length of that text before it was cut. */
  readonly characters: number;
  /** The argument that identifies the call at a glance. */
  readonly key: string;
  readonly args: readonly Argument[];
  readonly since: number;
  readonly until: number | null;
  readonly result: string;
  /** Tables and HTML that are shown in place of parts of the result; null for none. */
  readonly preview: ev.PreviewDisplay | null;
  /** Images that it returned. */
  readonly images: readonly ev.ImageDisplay[];
  /** The last lines of its output while it runs. */
  readonly output: string;
  /** The number of lines before those. */
  readonly earlierLines: number;
  /** The user changed the arguments. */
  readonly edited: boolean;
  /** A later reply has begun since the call ended. */
  readonly past: boolean;
}

/** A message that the user sent into the running turn, or that another agent sent. */
export interface Interjection extends ItemBase {
  readonly kind: 'interjection';
  /** The name of the agent that sent it; empty for the user. */
  readonly sender: string;
  readonly text: string;
}

/** A place where messages were removed from the conversation or summarised. */
export interface Cut extends ItemBase {
  readonly kind: 'cut';
  readonly text: string;
}

export interface Note extends ItemBase {
  readonly kind: 'note';
  readonly state: 'bad' | 'stop' | 'ask';
  readonly title: string;
  readonly text: string;
  /** A tool which the user has allowed for a turn's prompts, and its calls so far. */
  readonly allowed?: { readonly tool: string; readonly turn: number; readonly calls: number };
}

export type Item = Prose | Thinking | Call | Interjection | Cut | Note;

type WithoutAgent<T> = T extends Item ? Omit<T, 'agent'> : never;

/** A message as far as it was sent, with the id that its log gave it. */
export interface Entry {
  readonly id: number;
  readonly message: ev.MessageAppended['message'];
}

/** A prompt that waits: for the running tools to end if it steers, otherwise for the running turn. */
export interface QueuedPrompt {
  readonly agent: string;
  readonly id: string;
  readonly text: string;
  readonly steer: boolean;
  /** The id of the agent that sent it; empty for a person or a program. */
  readonly sender: string;
  /** The text is complete and so can be edited. */
  readonly complete: boolean;
}

/** A call that waits for approval; it is denied at `deadline`. */
export interface PendingApproval {
  readonly agent: string;
  /** The role of the agent in its team; empty if it is in no team. */
  readonly role: Role;
  readonly id: string;
  readonly name: string;
  readonly deadline: number;
  readonly display: ev.ApprovalDisplay;
}

/** A worker of the team that the agent leads. */
export interface Worker {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly model: string;
}

/** A worker that has left the team, with the reason in a few words. */
export interface FormerWorker {
  readonly id: string;
  readonly name: string;
  readonly reason: string;
}

export interface Response {
  readonly text: string;
  readonly failed: boolean;
  /** The other agent did not send it itself: it is its final text, or the reason of a failure. */
  readonly automatic: boolean;
}

/** A task that the agent gave to another one, with the responses to it; `until` is the time of the newest. */
export interface Task {
  readonly id: string;
  readonly kind: ev.Delegated['kind'];
  readonly target: string;
  readonly targetName: string;
  readonly text: string;
  readonly since: number;
  readonly until: number | null;
  readonly responses: readonly Response[];
  /** It ended without a response, or with the reason why there is none. */
  readonly failed: boolean;
}

export type Role = ev.AgentStarted['role'];

/** The agents that a remembered decision is for. */
export type RuleScope = Exclude<ev.ApprovalDecision['scope'], ''>;

export interface AgentState {
  readonly id: string;
  readonly name: string;
  /** What kind of agent it is, such as "builder". */
  readonly type: string;
  readonly role: Role;
  readonly model: string;
  readonly status: 'idle' | 'streaming' | 'executing_tools';
  readonly turn: number;
  /** Turns begun in the events folded here. */
  readonly turns: number;
  readonly messages: readonly Entry[];
  readonly queue: readonly QueuedPrompt[];
  /** Texts of prompts that were not sent because the agent was stopped, oldest first. */
  readonly returned: readonly string[];
  readonly running: readonly { readonly id: string; readonly name: string }[];
  readonly approvals: readonly PendingApproval[];
  /** The workers of its team, if it is the orchestrator. */
  readonly workers: readonly Worker[];
  /** The workers that left it. */
  readonly formerWorkers: readonly FormerWorker[];
  /** The tasks that it gave to other agents, oldest first; those without `until` have no response yet. */
  readonly tasks: readonly Task[];
  readonly compacting: boolean;
  readonly contextTokens: number;
  /** Tokens and cost in US dollars of the agent's life; `spent` is of the events folded here. */
  readonly usage: ev.Usage;
  readonly cost: number | null;
  readonly spent: Spent;
  readonly error: string | null;
  readonly stopped: boolean;

  readonly items: readonly Item[];
  /** What the agent is doing, in a few words. */
  readonly activity: string;
  /** Replies begun so far. */
  readonly step: number;
  /** The reply `step` is being written. */
  readonly writing: boolean;
  /** What is wrong with the newest reply, in a word or two; empty if nothing is. */
  readonly ending: string;
  /** Steering prompts whose message is still to come. */
  readonly steering: number;
  readonly since: number | null;
  readonly until: number | null;
}

export interface Spent {
  readonly input: number;
  readonly output: number;
  /** US dollars; null until a reply was counted, and from the first reply without a price. */
  readonly cost: number | null;
  readonly counted: boolean;
  /** Whether these are the least that was taken, because a reply was stopped before it was counted. */
  readonly estimated: boolean;
}

const NOTHING_SPENT: Spent = { input: 0, output: 0, cost: null, counted: false, estimated: false };

const NO_USAGE: ev.Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  thinking_tokens: 0,
};

/** The most characters of the images of one agent, as the kernel sends them. */
const IMAGES_CHARACTERS = 8_000_000;

const NO_DISPLAY: ev.ApprovalDisplay = {
  key: '',
  effects: [],
  folder: '',
  cwd: '',
  reason: '',
  arguments: [],
  replaced: [],
  change: null,
  commands: [],
  rule: '',
  whole: true,
  sandboxed: null,
  overwrites: false,
  for_prompt: false,
};

export function newAgent(id: string): AgentState {
  return {
    id,
    name: '',
    type: '',
    role: '',
    model: '',
    status: 'idle',
    turn: -1,
    turns: 0,
    messages: [],
    queue: [],
    returned: [],
    running: [],
    approvals: [],
    workers: [],
    formerWorkers: [],
    tasks: [],
    compacting: false,
    contextTokens: 0,
    usage: NO_USAGE,
    cost: null,
    spent: NOTHING_SPENT,
    error: null,
    stopped: false,
    items: [],
    activity: 'Waiting',
    step: 0,
    writing: false,
    ending: '',
    steering: 0,
    since: null,
    until: null,
  };
}

/** The agent after `event`. An event of an unknown type, which a newer kernel may send, changes nothing. */
export function fold(agent: AgentState, event: ev.AgentEvent): AgentState {
  switch (event.type) {
    case 'agent_started':
      return {
        ...withoutOpenTasks(agent, event.time),
        ...AT_REST,
        ...RESET,
        workers: [],
        name: event.name,
        type: event.agent_type,
        role: event.role,
        model: event.model,
        usage: event.usage ?? NO_USAGE,
        cost: event.cost ?? null,
        stopped: false,
      };
    case 'agent_changed':
      return { ...agent, model: event.model };
    case 'agent_stopped':
      return { ...agent, stopped: true };
    case 'queued':
      return queued(agent, event);
    case 'unqueued':
      return unqueued(agent, event);
    case 'steered':
      return { ...agent, steering: agent.steering + 1 };
    case 'turn_start':
      return turnStarted(agent, event);
    case 'message':
      return message(agent, event);
    case 'text_delta':
      return prose(agent, event.text, event.time);
    case 'thinking_delta':
      return thinking(agent, event.text, event.time);
    case 'tool_args_delta':
      return callWritten(agent, event.id, event.name, event.text, event.display?.characters ?? 0, event.time);
    case 'usage_delta':
      return usageCounted(agent, event);
    case 'tool_start':
      return toolStarted(agent, event);
    case 'tool_progress':
      if (event.display === undefined) return agent;
      return changeCall(agent, event.id, { output: event.display.tail, earlierLines: event.display.earlier_lines });
    case 'tool_preview':
      return event.display === undefined ? agent : changeCall(agent, event.id, { preview: event.display });
    case 'tool_end':
      return toolEnded(agent, event);
    case 'approval_request':
      return approvalRequested(agent, event);
    case 'approval_decision':
      return approvalDecided(agent, event);
    case 'compacting':
      return { ...agent, compacting: true, activity: 'Summarising the conversation so far' };
    case 'compacted':
      return compacted(agent, event);
    case 'limit_reached':
      return append(agent, {
        kind: 'note',
        state: 'ask',
        title: `Limit reached: ${event.limit.replaceAll('_', ' ')}`,
        text: event.reason,
      });
    case 'fallback':
      return append(closeLast({ ...agent, model: event.model }, event.time), {
        kind: 'note',
        state: 'stop',
        title: `${event.failed} could not answer, so ${event.model} is asked`,
        text: event.reason,
      });
    case 'rewound':
      return rewound(agent, event);
    case 'retry':
      return {
        ...withoutReply(agent),
        activity: `Retrying in ${Math.ceil(event.delay)} s, attempt ${event.attempt + 1}: ${event.reason}`,
      };
    case 'warning':
      return append(event.about === 'no_answer' ? { ...agent, ending: 'No answer' } : agent, {
        kind: 'note',
        state: 'stop',
        title: event.text,
        text: '',
      });
    case 'worker_spawned':
      return workerSpawned(agent, event);
    case 'worker_exit':
      return workerExited(agent, event);
    case 'delegated':
      return delegated(agent, event);
    case 'responded':
      return responded(agent, event);
    case 'evaluation_started':
    case 'scored':
      return agent;
    case 'turn_end':
      return turnOver(agent, event.time, agent.ending || 'Done');
    case 'aborted':
      return append(turnOver(agent, event.time, 'Stopped'), {
        kind: 'note',
        state: 'stop',
        title: 'Stopped',
        text: 'The text so far is kept.',
      });
    case 'error':
      return append(turnOver({ ...agent, error: event.reason }, event.time, 'Failed'), {
        kind: 'note',
        state: 'bad',
        title: errorTitle(event.kind),
        text: `${event.reason} What was received is kept.`.trimStart(),
      });
    default:
      event satisfies never;
      return agent;
  }
}

/** The agent as far as it came when its kernel ended. */
export function cutOff(agent: AgentState, time: number): AgentState {
  return {
    ...closeAll(agent, time),
    activity: 'Kernel stopped. The text so far is kept',
    until: agent.until ?? time,
  };
}

/** Whether a call is not over. */
export function isLive(call: Call): boolean {
  return call.state === 'form' || call.state === 'wait' || call.state === 'ask' || call.state === 'run';
}

const AT_REST = { status: 'idle', running: [], approvals: [], writing: false } as const;
const RESET = { queue: [], compacting: false, contextTokens: 0, error: null } as const;

function append(agent: AgentState, item: WithoutAgent<Item>): AgentState {
  return { ...agent, items: [...agent.items, { ...item, agent: agent.id } as Item] };
}

function replace(agent: AgentState, at: number, item: Item): AgentState {
  const items = agent.items.slice();
  items[at] = item;
  return { ...agent, items };
}

/** Close the prose or thinking at the end. */
function closeLast(agent: AgentState, time: number): AgentState {
  const at = agent.items.length - 1;
  const last = agent.items[at];
  if (last?.kind === 'prose' && last.open) return replace(agent, at, { ...last, open: false });
  if (last?.kind === 'thinking' && last.until === null) return replace(agent, at, { ...last, until: time });
  return agent;
}

/** Take back a reply's beginning: its worker was lost, and another one asks anew. */
function withoutReply(agent: AgentState): AgentState {
  if (!agent.writing) return agent;
  const items = agent.items.filter((item) => !('step' in item) || item.step !== agent.step);
  return { ...agent, items, writing: false };
}

/** Close everything, and stop the calls that are not over. */
function closeAll(agent: AgentState, time: number): AgentState {
  const items = closeLast(agent, time).items.map((item) =>
    item.kind === 'call' && isLive(item) ? { ...item, state: 'stop' as const, until: time } : item,
  );
  return { ...agent, ...AT_REST, items };
}

function turnStarted(agent: AgentState, event: ev.TurnStart): AgentState {
  return {
    ...agent,
    status: 'streaming',
    turn: event.index,
    turns: agent.turns + 1,
    model: event.model,
    error: null,
    writing: false,
    ending: '',
    steering: 0,
    since: agent.since ?? event.time,
    until: null,
    activity: 'Waiting for the model',
  };
}

function turnOver(agent: AgentState, time: number, activity: string): AgentState {
  return { ...closeAll(agent, time), activity, until: time };
}

function workerSpawned(agent: AgentState, event: ev.WorkerSpawned): AgentState {
  const worker = { id: event.worker_id, name: event.name, type: event.worker_type, model: event.model };
  return {
    ...agent,
    workers: [...agent.workers.filter((other) => other.id !== worker.id), worker],
    formerWorkers: agent.formerWorkers.filter((other) => other.id !== worker.id),
  };
}

function workerExited(agent: AgentState, { worker_id: id, name, reason }: ev.WorkerExit): AgentState {
  return {
    ...agent,
    workers: agent.workers.filter((worker) => worker.id !== id),
    formerWorkers: [...agent.formerWorkers.filter((worker) => worker.id !== id), { id, name, reason }],
  };
}

function delegated(agent: AgentState, event: ev.Delegated): AgentState {
  const task = {
    id: event.task_id,
    kind: event.kind,
    target: event.target_id,
    targetName: event.target_name,
    text: event.text,
    since: event.time,
    until: null,
    responses: [],
    failed: false,
  };
  return { ...agent, tasks: [...agent.tasks, task] };
}

function responded(agent: AgentState, event: ev.Responded): AgentState {
  const { time: until, text, error: failed, automatic } = event;
  const tasks = agent.tasks.map((task) =>
    task.id === event.task_id
      ? { ...task, until, failed, responses: [...task.responses, { text, failed, automatic }] }
      : task,
  );
  return { ...agent, tasks };
}

/** The tasks that still wait for a response count as ended, because nobody works on them any more. */
function withoutOpenTasks(agent: AgentState, time: number): AgentState {
  const tasks = agent.tasks.map((task) => (task.until === null ? { ...task, until: time, failed: true } : task));
  return { ...agent, tasks };
}

/** A prompt with a known id was edited. */
function queued(agent: AgentState, event: ev.Queued): AgentState {
  const { prompt_id: id, text, steer } = event;
  const sender = event.sender_id ?? '';
  const prompt = { agent: agent.id, id, text, steer, sender, complete: event.display?.complete ?? true };
  const known = agent.queue.some((other) => other.id === id);
  const queue = known ? agent.queue.map((other) => (other.id === id ? prompt : other)) : [...agent.queue, prompt];
  return { ...agent, queue, activity: agent.since === null ? 'Queued' : agent.activity };
}

function unqueued(agent: AgentState, event: ev.Unqueued): AgentState {
  const prompt = agent.queue.find((waiting) => waiting.id === event.prompt_id);
  const queue = agent.queue.filter((waiting) => waiting !== prompt);
  return { ...agent, queue, returned: prompt && event.returned ? [...agent.returned, prompt.text] : agent.returned };
}

/** Begin a new reply unless one is being written. */
function beginReply(agent: AgentState, time: number): AgentState {
  if (agent.writing) return agent;
  const items = agent.items.map((item) => (item.kind === 'call' && !isLive(item) ? { ...item, past: true } : item));
  return { ...agent, items, writing: true, step: agent.step + 1, since: agent.since ?? time };
}

function prose(agent: AgentState, text: string, time: number): AgentState {
  if (text === '') return agent;
  const now = beginReply(agent, time);
  const at = now.items.length - 1;
  const last = now.items[at];
  if (last?.kind === 'prose' && last.open) return replace(now, at, { ...last, text: last.text + text });
  const closed = { ...closeLast(now, time), activity: 'Writing' };
  return append(closed, { kind: 'prose', step: now.step, message: null, text, open: true });
}

function thinking(agent: AgentState, text: string, time: number): AgentState {
  const now = beginReply(agent, time);
  const at = now.items.length - 1;
  const last = now.items[at];
  if (last?.kind === 'thinking' && last.until === null) return replace(now, at, { ...last, text: last.text + text });
  const closed = { ...closeLast(now, time), activity: 'Thinking' };
  return append(closed, { kind: 'thinking', step: now.step, message: null, text, since: time, until: null });
}

function findCall(agent: AgentState, id: string): Call | undefined {
  return agent.items[indexOfCall(agent, id)] as Call | undefined;
}

/** The position of the newest call with this id, -1 if there is none: ids may be used again in a later reply. */
function indexOfCall(agent: AgentState, id: string): number {
  return agent.items.findLastIndex((item) => item.kind === 'call' && item.id === id);
}

function changeCall(agent: AgentState, id: string, to: Partial<Call>): AgentState {
  const at = indexOfCall(agent, id);
  return at < 0 ? agent : replace(agent, at, { ...(agent.items[at] as Call), ...to });
}

function newCall(agent: AgentState, id: string, name: string, time: number): Call {
  return {
    kind: 'call',
    agent: agent.id,
    id,
    name,
    state: 'form',
    json: '',
    characters: 0,
    key: '',
    args: [],
    since: time,
    until: null,
    result: '',
    output: '',
    preview: null,
    images: [],
    earlierLines: 0,
    edited: false,
    step: agent.step,
    message: null,
    past: false,
  };
}

/** More JSON text of a call's arguments. */
function callWritten(
  agent: AgentState,
  id: string,
  name: string,
  json: string,
  characters: number,
  time: number,
): AgentState {
  const now = beginReply(agent, time);
  const known = findCall(now, id);
  if (known?.state === 'form') return changeCall(now, id, { json: known.json + json, characters });
  const closed = { ...closeLast(now, time), activity: 'Writing arguments' };
  return append(closed, { ...newCall(closed, id, name, time), json, characters });
}

function message(agent: AgentState, event: ev.MessageAppended): AgentState {
  const { id, message, time } = event;
  const logged = { ...agent, messages: [...agent.messages, { id, message }] };
  if (message.type === 'summary') return logged;
  const next =
    message.type === 'assistant'
      ? replied(logged, id, message, time)
      : message.type === 'user'
        ? userMessage(logged, message, time)
        : withImages(toolResults(logged, message, time), event.display?.images ?? []);
  if (agent.status === 'idle') return next;
  const calls = message.type === 'assistant' && next.items.some((item) => item.kind === 'call' && item.message === id);
  return { ...next, status: calls ? 'executing_tools' : 'streaming', writing: false };
}

/** The reply is complete. A stored one comes without deltas, so its items are made from its content. */
function replied(agent: AgentState, id: number, message: ev.AssistantMessage, time: number): AgentState {
  const written = agent.writing ? agent : (message.content ?? []).reduce((now, part) => partWritten(now, part, time), agent);
  const closed = closeLast(written, time);
  const items = closed.items.map((item) => {
    if (!written.writing || !('step' in item) || item.step !== written.step) return item;
    return item.kind === 'call' && item.state === 'form'
      ? { ...item, message: id, state: 'wait' as const }
      : { ...item, message: id };
  });
  const { stop_reason: reason } = message;
  const ending = reason === 'length' ? 'Cut off' : reason === 'refusal' ? 'Refused' : '';
  return { ...closed, items, writing: false, ending };
}

function partWritten(
  agent: AgentState,
  part: NonNullable<ev.AssistantMessage['content']>[number],
  time: number,
): AgentState {
  if (part.type === 'text') return prose(agent, part.text, time);
  if (part.type === 'thinking') return part.text === '' ? agent : thinking(agent, part.text, time);
  const json = part.invalid ?? JSON.stringify(part.args);
  return callWritten(agent, part.id, part.name, json, json.length, time);
}

/** The calls with the images that they returned. Of many images, the newest are kept. */
function withImages(agent: AgentState, images: readonly ev.ImageDisplay[]): AgentState {
  if (images.length === 0) return agent;
  const byCall = new Map<string, ev.ImageDisplay[]>();
  for (const image of images) byCall.set(image.call, [...(byCall.get(image.call) ?? []), image]);
  const next = [...byCall].reduce((now, [id, found]) => changeCall(now, id, { images: found }), agent);
  let space = IMAGES_CHARACTERS;
  const items = next.items.toReversed().map((item) => {
    if (item.kind !== 'call' || item.images.length === 0) return item;
    const kept = item.images.toReversed().map((image) => {
      space -= image.source.length;
      return space >= 0 || image.source === '' ? image : { ...image, source: '' };
    });
    return kept.every((image, at) => image === item.images.at(-1 - at)) ? item : { ...item, images: kept.toReversed() };
  });
  return { ...next, items: items.toReversed() };
}

/** The first prompt stands in the cell; those that steer or come later are shown, and the messages of other agents. */
function userMessage(agent: AgentState, event: ev.UserMessage, time: number): AgentState {
  const { content, sender_id, sender_name } = event;
  const closed = closeLast(agent, time);
  if (agent.steering === 0 && sender_id === null && agent.turns < 2) return closed;
  const text = (content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
  const steering = Math.max(agent.steering - 1, 0);
  return append({ ...closed, steering }, { kind: 'interjection', sender: sender_name ?? sender_id ?? '', text });
}

/** Each tool that ran has ended already; the failures of calls that never ran come here only. */
function toolResults(agent: AgentState, { content }: ev.ToolResultMessage, time: number): AgentState {
  return content.reduce((now, part) => {
    const call = findCall(now, part.id);
    return part.is_error && call && isLive(call) ? callEnded(now, part.id, part.name, 'bad', part.text, time) : now;
  }, agent);
}

function usageCounted(agent: AgentState, event: ev.UsageDelta): AgentState {
  const { input, output, cost, counted, estimated } = agent.spent;
  return {
    ...agent,
    usage: event.total,
    cost: event.total_cost,
    contextTokens: event.context_tokens,
    spent: {
      input: input + event.delta.input_tokens,
      output: output + event.delta.output_tokens,
      cost: event.cost === null || (counted && cost === null) ? null : (cost ?? 0) + event.cost,
      counted: true,
      estimated: estimated || event.estimated === true,
    },
  };
}

function toolStarted(agent: AgentState, event: ev.ToolStart): AgentState {
  const { id, name, time } = event;
  const at = indexOfCall(agent, id);
  const known = agent.items[at] as Call | undefined;
  const reused = known !== undefined && isLive(known);
  const call: Call = {
    ...(reused ? known : newCall(agent, id, name, time)),
    state: 'run',
    json: '',
    key: event.display?.key ?? '',
    args: event.display?.arguments ?? [],
    since: time,
  };
  const next = reused ? replace(agent, at, call) : append(agent, call);
  return { ...next, running: [...agent.running, { id, name }], activity: runningTools(next) };
}

function toolEnded(agent: AgentState, { id, name, error, result, time }: ev.ToolEnd): AgentState {
  const next = callEnded(agent, id, name, error ? 'bad' : 'done', result, time);
  return { ...next, running: agent.running.filter((call) => call.id !== id) };
}

function callEnded(
  agent: AgentState,
  id: string,
  name: string,
  state: 'done' | 'bad',
  result: string,
  time: number,
): AgentState {
  const at = indexOfCall(agent, id);
  const known = agent.items[at] as Call | undefined;
  const base = known ?? newCall(agent, id, name, time);
  // The model is told that a call was denied as if the tool had failed.
  const denied = base.state === 'deny' && base.result === '';
  const call: Call = { ...base, state: denied ? 'deny' : state, json: '', result, until: time };
  const next = known ? replace(agent, at, call) : append(agent, call);
  return { ...next, activity: runningTools(next) };
}

function approvalRequested(agent: AgentState, event: ev.ApprovalRequest): AgentState {
  const { id, name, deadline, time } = event;
  const display = event.display ?? { ...NO_DISPLAY, reason: event.reason ?? '' };
  const known = findCall(agent, id);
  const base = known !== undefined && isLive(known) ? agent : append(agent, newCall(agent, id, name, time));
  const args = display.arguments.map(([argument, text]) => [argument, text] as const);
  const next = changeCall(base, id, { state: 'ask', json: '', key: display.key, args });
  return { ...next, approvals: [...agent.approvals, { agent: agent.id, role: agent.role, id, name, deadline, display }] };
}

/** The decision may come from another browser, or from a rule without a request. */
function approvalDecided(agent: AgentState, event: ev.ApprovalDecision): AgentState {
  const next = callDecided(agent, event);
  const at = agent.items.findLastIndex(({ kind, ...item }) => {
    const { allowed } = item as Note;
    return kind === 'note' && allowed?.tool === event.name && allowed.turn === agent.turn;
  });
  if (!event.allowed || (event.scope !== 'prompt' && (at < 0 || event.by !== 'rule'))) return next;
  const calls = at < 0 ? 1 : ((next.items[at] as Note).allowed?.calls ?? 0) + 1;
  const text = `${calls} ${calls === 1 ? 'call' : 'calls'} so far`;
  const allowed = { tool: event.name, turn: agent.turn, calls };
  if (at >= 0) return replace(next, at, { ...(next.items[at] as Note), text, allowed });
  return append(next, { kind: 'note', state: 'ask', title: `${event.name} is allowed for this prompt`, text, allowed });
}

function callDecided(agent: AgentState, event: ev.ApprovalDecision): AgentState {
  const approvals = agent.approvals.filter((approval) => approval.id !== event.id);
  if (!event.allowed) {
    const state = event.by === 'stop' ? 'stop' : 'deny';
    return changeCall({ ...agent, approvals }, event.id, { state, until: event.time });
  }
  if (approvals.length === agent.approvals.length) return agent;
  const { display } = event;
  const edits = display === undefined ? {} : { key: display.key, args: display.arguments, edited: true };
  const next = changeCall({ ...agent, approvals }, event.id, { state: 'run', since: event.time, ...edits });
  return { ...next, activity: runningTools(next) };
}

function compacted(agent: AgentState, event: ev.Compacted): AgentState {
  const next = { ...agent, compacting: false, activity: 'Waiting for the model' };
  if (event.summary_id === null) {
    return append(next, { kind: 'note', state: 'stop', title: 'The conversation was not shortened', text: event.reason });
  }
  const sizes = `${count(event.tokens_before)} tokens became ${count(event.tokens_after)}`;
  const text = `What was said before was summarised: ${sizes}`;
  return append({ ...next, contextTokens: event.tokens_after }, { kind: 'cut', text });
}

function rewound(agent: AgentState, event: ev.Rewound): AgentState {
  const next: AgentState = {
    ...withoutOpenTasks(closeAll(agent, event.time), event.time),
    ...RESET,
    messages: agent.messages.filter((entry) => entry.id < event.message_id),
    turn: event.turn,
    usage: event.usage,
    cost: event.cost,
  };
  return append(next, { kind: 'cut', text: 'The conversation was taken back to an earlier message' });
}

function runningTools(agent: AgentState): string {
  const names = agent.items.flatMap((item) => (item.kind === 'call' && item.state === 'run' ? [item.name] : []));
  if (names.length === 0) return 'Waiting for the model';
  return names.length === 1 ? `Running ${names[0]}` : `Running ${names.length} tools`;
}
