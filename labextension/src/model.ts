/**
 * What a run looks like after its events so far, as a pure fold. No DOM here.
 *
 * Times are in seconds since the run's first event, on the kernel's clock.
 */

export type RunEvent = { readonly t: number } & (
  | { readonly type: 'queued' | 'end' | 'aborted' }
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
  | { readonly type: 'usage'; readonly input: number; readonly output: number; readonly cost: number | null }
  | { readonly type: 'retry'; readonly attempt: number; readonly delay: number; readonly reason: string }
  | { readonly type: 'warning'; readonly text: string }
  | { readonly type: 'error'; readonly reason: string }
);

export type Argument = readonly [name: string, text: string];

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

/** `form`: the model writes the arguments. `wait`: they are complete and the tool has not begun. */
export type CallState = 'form' | 'wait' | 'run' | 'done' | 'bad' | 'stop';

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
  /** The agent has gone on since this call ended. */
  readonly past: boolean;
}

export interface Note {
  readonly kind: 'note';
  readonly state: 'bad' | 'stop';
  readonly title: string;
  readonly text: string;
}

export type Item = Prose | Thinking | Call | Note;

export interface Run {
  readonly items: readonly Item[];
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
      return run.since === null ? { ...run, status: 'Queued' } : run;
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
      return note(run, { kind: 'note', state: 'stop', title: event.text, text: '' });
    case 'end':
      return { ...closeAll(run, event.t), status: 'Done', until: event.t };
    case 'aborted':
      return note({ ...closeAll(run, event.t), status: 'Stopped', until: event.t }, {
        kind: 'note',
        state: 'stop',
        title: 'Stopped',
        text: 'The text so far is kept.',
      });
    case 'error':
      return note({ ...closeAll(run, event.t), status: 'Failed', until: event.t }, {
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
  return call.state === 'form' || call.state === 'wait' || call.state === 'run';
}

function note(run: Run, item: Note): Run {
  return { ...run, items: [...run.items, item] };
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
  return { ...run, items, writing: false };
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

function newCall(id: string, name: string, t: number): Call {
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
  const call = { ...newCall(event.id, event.name, event.t), forming: event.text, count: event.count };
  return { ...closed, status: 'Writing arguments', items: [...closed.items, call] };
}

function message(run: Run, stop: string, t: number): Run {
  const closed = closeLast(run, t);
  const items = closed.items.map((item) =>
    item.kind === 'call' && item.state === 'form' ? { ...item, state: 'wait' as const } : item,
  );
  const after = { ...closed, items, writing: false };
  if (stop !== 'length' && stop !== 'refusal') return after;
  return note(after, {
    kind: 'note',
    state: 'stop',
    title: stop === 'length' ? 'The answer reached its token limit' : 'The model refused to answer',
    text: stop === 'length' ? 'Ask it to go on, or allow it more tokens.' : 'Ask in another way, or ask another model.',
  });
}

function started(run: Run, event: Extract<RunEvent, { type: 'tool' }>): Run {
  const at = indexOfCall(run, event.id);
  const known = at < 0 ? undefined : (run.items[at] as Call);
  const base = known !== undefined && live(known) ? known : newCall(event.id, event.name, event.t);
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
  const call: Call = { ...(known ?? newCall(id, name, t)), state, forming: '', result, until: t };
  const next = known ? replace(run, at, call) : { ...run, items: [...run.items, call] };
  return { ...next, status: running(next) };
}

function running(run: Run): string {
  const names = run.items.flatMap((item) => (item.kind === 'call' && item.state === 'run' ? [item.name] : []));
  if (names.length === 0) return 'Waiting for the model';
  return names.length === 1 ? `Running ${names[0]}` : `Running ${names.length} tools`;
}
