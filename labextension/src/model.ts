/**
 * What a run looks like after its events so far, as a pure fold. No DOM here.
 *
 * Times are in seconds since the run's first event, on the kernel's clock.
 */

import { count } from './figures.ts';

export type RunEvent = { readonly t: number } & (
  | { readonly type: 'end' | 'aborted' | 'compacting' | 'rewound' }
  | ({ readonly type: 'queued' } & Waiting)
  | { readonly type: 'unqueued'; readonly id: string }
  | { readonly type: 'said'; readonly text: string }
  | { readonly type: 'turn'; readonly model: string }
  | { readonly type: 'text' | 'thinking'; readonly text: string }
  | { readonly type: 'args'; readonly id: string; readonly name: string; readonly text: string; readonly count: number }
  | { readonly type: 'message'; readonly stop: string }
  | { readonly type: 'failures'; readonly calls: readonly (readonly [id: string, text: string])[] }
  | {
      readonly type: 'tool';
      readonly id: string;
      readonly name: string;
      readonly key: string;
      readonly args: readonly Argument[];
    }
  | {
      readonly type: 'result';
      readonly id: string;
      readonly name: string;
      readonly text: string;
      readonly error: boolean;
    }
  | { readonly type: 'progress'; readonly id: string; readonly text: string; readonly earlier: number }
  | ({ readonly type: 'ask' } & Ask)
  | {
      readonly type: 'decided';
      readonly id: string;
      readonly allowed: boolean;
      readonly by: string;
      /** With the arguments that somebody edited. */
      readonly key?: string;
      readonly args?: readonly Argument[];
    }
  | { readonly type: 'compacted'; readonly before: number; readonly after: number | null; readonly reason: string }
  | { readonly type: 'limit'; readonly limit: string; readonly reason: string }
  | { readonly type: 'fallback'; readonly failed: string; readonly model: string; readonly reason: string }
  | { readonly type: 'usage'; readonly input: number; readonly output: number; readonly cost: number | null }
  | { readonly type: 'retry'; readonly attempt: number; readonly delay: number; readonly reason: string }
  | { readonly type: 'warning'; readonly text: string }
  | { readonly type: 'error'; readonly reason: string }
);

export type Argument = readonly [name: string, text: string];

/** A prompt that waits: for the running tools to end when it steers, otherwise for the turn. */
export interface Waiting {
  readonly id: string;
  readonly text: string;
  readonly steer: boolean;
  /** The text is all there and so can be edited. */
  readonly whole: boolean;
}

export type TouchKind = 'read' | 'write' | 'execute' | 'network';
export type AskedKind = 'text' | 'number' | 'choice' | 'json' | 'cut';

/** A call that waits for consent. */
export interface Ask {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly touches: readonly (readonly [kind: TouchKind, target: string])[];
  readonly folder: string;
  readonly reason: string;
  readonly args: readonly (readonly [name: string, text: string, kind: AskedKind])[];
  /** The names of the arguments that `change` shows. */
  readonly replaced: readonly string[];
  readonly change: readonly (readonly [sign: ' ' | '-' | '+', line: string])[] | null;
  /** In seconds since the run's first event. */
  readonly deadline: number;
}

export interface Prose {
  readonly kind: 'prose';
  readonly text: string;
  readonly open: boolean;
}

export interface Thinking {
  readonly kind: 'thinking';
  readonly text: string;
  readonly since: number;
  readonly until: number | null;
}

/**
 * `form`: the model writes the arguments. `wait`: they are complete and the tool has not begun. `ask`: somebody is to
 * decide whether it may run.
 */
export type CallState = 'form' | 'wait' | 'ask' | 'run' | 'done' | 'bad' | 'deny' | 'stop';

export interface Call {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  readonly state: CallState;
  /** JSON text of the arguments as far as it was sent, while they form. */
  readonly forming: string;
  /** Length of that text before it was cut. */
  readonly count: number;
  readonly key: string;
  readonly args: readonly Argument[];
  readonly since: number;
  readonly until: number | null;
  readonly result: string;
  /** The last lines of what it shows while it runs. */
  readonly output: string;
  /** Lines before those. */
  readonly earlier: number;
  /** Somebody changed the arguments. */
  readonly edited: boolean;
  readonly step: number;
  /** The agent has gone on since this call ended. */
  readonly past: boolean;
}

/** What somebody said into the running turn. */
export interface Said {
  readonly kind: 'said';
  readonly text: string;
}

/** A place where something was taken out of the conversation. */
export interface Cut {
  readonly kind: 'cut';
  readonly text: string;
}

export interface Note {
  readonly kind: 'note';
  readonly state: 'bad' | 'stop' | 'ask';
  readonly title: string;
  readonly text: string;
}

export type Item = Prose | Thinking | Call | Said | Cut | Note;

export interface Run {
  readonly items: readonly Item[];
  readonly queue: readonly Waiting[];
  readonly asks: readonly Ask[];
  readonly status: string;
  /** Model replies begun so far. */
  readonly step: number;
  readonly writing: boolean;
  readonly since: number | null;
  readonly until: number | null;
  readonly input: number;
  readonly output: number;
  /** US dollars; null as long as no reply was counted, and from the first reply without a price. */
  readonly cost: number | null;
  readonly counted: boolean;
  readonly model: string;
}

export const EMPTY: Run = {
  items: [],
  queue: [],
  asks: [],
  status: 'Waiting',
  step: 0,
  writing: false,
  since: null,
  until: null,
  input: 0,
  output: 0,
  cost: null,
  counted: false,
  model: '',
};

export function foldAll(run: Run, events: readonly RunEvent[]): Run {
  return events.reduce(fold, run);
}

/** The run after `event`. Events of unknown type change nothing. */
export function fold(run: Run, event: RunEvent): Run {
  switch (event.type) {
    case 'queued':
      return run.since === null ? { ...run, status: 'Queued' } : { ...run, queue: queued(run.queue, event) };
    case 'unqueued':
      return { ...run, queue: run.queue.filter((waiting) => waiting.id !== event.id) };
    case 'said':
      return add(closeLast(run, event.t), { kind: 'said', text: event.text });
    case 'turn':
      return { ...run, since: run.since ?? event.t, until: null, status: 'Waiting for the model', model: event.model };
    case 'text':
      return event.text === '' ? run : prose(reply(run, event.t), event.text, event.t);
    case 'thinking':
      return thinking(reply(run, event.t), event.text, event.t);
    case 'args':
      return forming(reply(run, event.t), event);
    case 'message':
      return message(run, event.stop, event.t);
    case 'tool':
      return started(run, event);
    case 'progress':
      return change(run, event.id, { output: event.text, earlier: event.earlier });
    case 'ask':
      return asked(run, event);
    case 'decided':
      return decided(run, event);
    case 'compacting':
      return { ...run, status: 'Summarising what was said before' };
    case 'compacted':
      return compacted(run, event.before, event.after, event.reason);
    case 'rewound':
      return add(closeLast(run, event.t), { kind: 'cut', text: 'The conversation was taken back to an earlier message' });
    case 'limit':
      return add(run, {
        kind: 'note',
        state: 'ask',
        title: `Limit reached: ${event.limit.replaceAll('_', ' ')}`,
        text: event.reason,
      });
    case 'fallback':
      return add(closeLast(run, event.t), {
        kind: 'note',
        state: 'stop',
        title: `${event.failed} could not answer, so ${event.model} is asked`,
        text: event.reason,
      });
    case 'result':
      return ended(run, event.id, event.name, event.error ? 'bad' : 'done', event.text, event.t);
    case 'failures':
      return event.calls.reduce((now, [id, text]) => {
        const call = findCall(now, id);
        return call && live(call) ? ended(now, id, call.name, 'bad', text, event.t) : now;
      }, run);
    case 'usage':
      return {
        ...run,
        input: run.input + event.input,
        output: run.output + event.output,
        cost: event.cost === null || (run.counted && run.cost === null) ? null : (run.cost ?? 0) + event.cost,
        counted: true,
      };
    case 'retry':
      return {
        ...run,
        status: `Retrying in ${Math.ceil(event.delay)} s, attempt ${event.attempt + 1}: ${event.reason}`,
      };
    case 'warning':
      return add(run, { kind: 'note', state: 'stop', title: event.text, text: '' });
    case 'end':
      return { ...closeAll(run, event.t), status: 'Done', until: event.t };
    case 'aborted':
      return add({ ...closeAll(run, event.t), status: 'Stopped', until: event.t }, {
        kind: 'note',
        state: 'stop',
        title: 'Stopped',
        text: 'The text so far is kept.',
      });
    case 'error':
      return add({ ...closeAll(run, event.t), status: 'Failed', until: event.t }, {
        kind: 'note',
        state: 'bad',
        title: event.reason,
        text: 'What was received is kept.',
      });
    default:
      return run;
  }
}

/** Whether a call still has something to come. */
export function live(call: Call): boolean {
  return call.state === 'form' || call.state === 'wait' || call.state === 'ask' || call.state === 'run';
}

/** What the run does now, in a few words. */
export function statusOf(run: Run): string {
  return run.asks.length > 0 ? 'Waiting for you' : run.status;
}

/** The run as far as it came when its kernel ended. */
export function cutOff(run: Run, t: number): Run {
  return { ...closeAll(run, t), status: 'Kernel stopped. The text so far is kept', until: run.until ?? t };
}

function add(run: Run, item: Item): Run {
  return { ...run, items: [...run.items, item] };
}

/** The same prompt again is an edited one. */
function queued(queue: readonly Waiting[], { id, text, steer, whole }: Waiting): readonly Waiting[] {
  const waiting = { id, text, steer, whole };
  const known = queue.some((other) => other.id === id);
  return known ? queue.map((other) => (other.id === id ? waiting : other)) : [...queue, waiting];
}

function replace(run: Run, at: number, item: Item): Run {
  const items = run.items.slice();
  items[at] = item;
  return { ...run, items };
}

/** The model says something: a new step, unless it has been speaking already. */
function reply(run: Run, t: number): Run {
  if (run.writing) return run;
  const items = run.items.map((item) => (item.kind === 'call' && !live(item) ? { ...item, past: true } : item));
  return { ...run, items, writing: true, step: run.step + 1, since: run.since ?? t };
}

function closeLast(run: Run, t: number): Run {
  const at = run.items.length - 1;
  const last = run.items[at];
  if (last?.kind === 'prose' && last.open) return replace(run, at, { ...last, open: false });
  if (last?.kind === 'thinking' && last.until === null) return replace(run, at, { ...last, until: t });
  return run;
}

function closeAll(run: Run, t: number): Run {
  const items = closeLast(run, t).items.map((item) =>
    item.kind === 'call' && live(item) ? { ...item, state: 'stop' as const, until: t } : item,
  );
  return { ...run, items, asks: [], writing: false };
}

function prose(run: Run, text: string, t: number): Run {
  const at = run.items.length - 1;
  const last = run.items[at];
  if (last?.kind === 'prose' && last.open) return replace(run, at, { ...last, text: last.text + text });
  const closed = closeLast(run, t);
  return { ...closed, status: 'Writing', items: [...closed.items, { kind: 'prose', text, open: true }] };
}

function thinking(run: Run, text: string, t: number): Run {
  const at = run.items.length - 1;
  const last = run.items[at];
  if (last?.kind === 'thinking' && last.until === null) return replace(run, at, { ...last, text: last.text + text });
  const closed = closeLast(run, t);
  return {
    ...closed,
    status: 'Thinking',
    items: [...closed.items, { kind: 'thinking', text, since: t, until: null }],
  };
}

function findCall(run: Run, id: string): Call | undefined {
  const at = indexOfCall(run, id);
  return at < 0 ? undefined : (run.items[at] as Call);
}

/** The newest call with this id: ids may come back in a later message. */
function indexOfCall(run: Run, id: string): number {
  for (let at = run.items.length - 1; at >= 0; at--) {
    const item = run.items[at];
    if (item?.kind === 'call' && item.id === id) return at;
  }
  return -1;
}

/** Change the newest call with this id, if there is one. */
function change(run: Run, id: string, to: Partial<Call>): Run {
  const at = indexOfCall(run, id);
  return at < 0 ? run : replace(run, at, { ...(run.items[at] as Call), ...to });
}

function newCall(run: Run, id: string, name: string, t: number): Call {
  return {
    kind: 'call',
    id,
    name,
    state: 'form',
    forming: '',
    count: 0,
    key: '',
    args: [],
    since: t,
    until: null,
    result: '',
    output: '',
    earlier: 0,
    edited: false,
    step: run.step,
    past: false,
  };
}

function forming(run: Run, event: Extract<RunEvent, { type: 'args' }>): Run {
  const at = indexOfCall(run, event.id);
  const known = at < 0 ? undefined : (run.items[at] as Call);
  if (known?.state === 'form') {
    return replace(run, at, { ...known, forming: known.forming + event.text, count: event.count });
  }
  const closed = closeLast(run, event.t);
  const call = { ...newCall(run, event.id, event.name, event.t), forming: event.text, count: event.count };
  return { ...closed, status: 'Writing arguments', items: [...closed.items, call] };
}

function message(run: Run, stop: string, t: number): Run {
  const closed = closeLast(run, t);
  const items = closed.items.map((item) =>
    item.kind === 'call' && item.state === 'form' ? { ...item, state: 'wait' as const } : item,
  );
  const after = { ...closed, items, writing: false };
  if (stop !== 'length' && stop !== 'refusal') return after;
  return add(after, {
    kind: 'note',
    state: 'stop',
    title: stop === 'length' ? 'The answer reached its token limit' : 'The model refused to answer',
    text: stop === 'length' ? 'Ask it to go on, or allow it more tokens.' : 'Ask in another way, or ask another model.',
  });
}

function started(run: Run, event: Extract<RunEvent, { type: 'tool' }>): Run {
  const at = indexOfCall(run, event.id);
  const known = at < 0 ? undefined : (run.items[at] as Call);
  const base = known !== undefined && live(known) ? known : newCall(run, event.id, event.name, event.t);
  const call: Call = {
    ...base,
    state: 'run',
    forming: '',
    key: event.key,
    args: event.args,
    since: event.t,
  };
  const next = base === known ? replace(run, at, call) : { ...run, items: [...run.items, call] };
  return { ...next, status: running(next) };
}

function ended(run: Run, id: string, name: string, state: 'done' | 'bad', result: string, t: number): Run {
  const at = indexOfCall(run, id);
  const known = at < 0 ? undefined : (run.items[at] as Call);
  const base = known ?? newCall(run, id, name, t);
  // What the model is told of a call that was denied is no failure of the tool.
  const denied = base.state === 'deny' && base.result === '';
  const call: Call = { ...base, state: denied ? 'deny' : state, forming: '', result, until: t };
  const next = known ? replace(run, at, call) : { ...run, items: [...run.items, call] };
  return { ...next, status: running(next) };
}

function asked(run: Run, { type: _, t, ...ask }: Extract<RunEvent, { type: 'ask' }>): Run {
  const known = findCall(run, ask.id);
  const base = known !== undefined && live(known) ? run : add(run, newCall(run, ask.id, ask.name, t));
  const args = ask.args.map(([name, text]) => [name, text] as const);
  return { ...change(base, ask.id, { state: 'ask', forming: '', key: ask.key, args }), asks: [...run.asks, ask] };
}

/** Who decides may be somebody else, or a rule without anybody being asked. */
function decided(run: Run, event: Extract<RunEvent, { type: 'decided' }>): Run {
  const asks = run.asks.filter((ask) => ask.id !== event.id);
  if (!event.allowed) {
    return change({ ...run, asks }, event.id, { state: event.by === 'stop' ? 'stop' : 'deny', until: event.t });
  }
  if (asks.length === run.asks.length) return run;
  const edits = event.args === undefined ? {} : { key: event.key ?? '', args: event.args, edited: true };
  const next = change({ ...run, asks }, event.id, { state: 'run', since: event.t, ...edits });
  return { ...next, status: running(next) };
}

function compacted(run: Run, before: number, after: number | null, reason: string): Run {
  const next = { ...run, status: 'Waiting for the model' };
  if (after === null) {
    return add(next, { kind: 'note', state: 'stop', title: 'The conversation was not shortened', text: reason });
  }
  const text = `What was said before was summarised: ${count(before)} tokens became ${count(after)}`;
  return add(next, { kind: 'cut', text });
}

function running(run: Run): string {
  const names = run.items.flatMap((item) => (item.kind === 'call' && item.state === 'run' ? [item.name] : []));
  if (names.length === 0) return 'Waiting for the model';
  return names.length === 1 ? `Running ${names[0]}` : `Running ${names.length} tools`;
}
