/** The browser's side of the connection to the kernel: keeps the run up to date, and resyncs when a frame is missing. */

import type { AgentEvent, QuestionDisplay } from './events.generated.ts';
import type { RuleScope } from './agent-state.ts';
import { cutOffRun, EMPTY, foldAll, runOf } from './run.ts';
import type { Facts, Member, Run } from './run.ts';
import { RunRequests } from './run-requests.ts';
import type { Reply, RunRequest } from './run-requests.ts';

/**
 * Events with their positions in the run; `now` is the kernel's time in seconds since the epoch. `facts` are there if
 * they have changed.
 */
export interface Frame {
  readonly type: 'frame';
  readonly from: number;
  readonly to: number;
  readonly now: number;
  readonly facts?: Facts;
  readonly events: readonly AgentEvent[];
}

/** All events of the run so far. `members` are the agents of the team that the run is of, none for a single agent. */
export interface Snapshot {
  readonly type: 'snapshot';
  readonly to: number;
  readonly now: number;
  readonly members?: readonly Member[];
  readonly facts?: Facts;
  readonly events: readonly AgentEvent[];
}

/** Why a command failed, with the text that the user had written; `agent_id` is in commands to a single agent. */
export interface Refusal {
  readonly type: 'refused';
  readonly reason: string;
  readonly text: string;
  readonly agent_id?: string | null;
}

/** All questions of sidecars that wait for an answer; `notice` says how an earlier one ended. */
export interface Questions {
  readonly type: 'questions';
  readonly now: number;
  readonly questions: readonly QuestionDisplay[];
  readonly notice: string;
}

/** The run is over, and the kernel no longer has its events. */
export interface Gone {
  readonly type: 'gone';
}

export type Incoming = Frame | Snapshot | Refusal | Questions | Gone | Reply;

/** A value for each field of a question; null declines it. */
export interface QuestionAnswer {
  readonly id: string;
  readonly values: readonly unknown[] | null;
}

export interface Decision {
  readonly agent_id: string;
  /** The id of the call. */
  readonly id: string;
  readonly allow: boolean;
  /** The edited arguments; null for none. */
  readonly args: Readonly<Record<string, unknown>> | null;
  readonly remember: boolean;
  /** The agents that a remembered decision is for; null if it is not remembered. */
  readonly scope: RuleScope | null;
  readonly reason: string;
}

/** What the browser sends to the kernel. A command with the id of an agent is for this agent alone. */
export type Command =
  | { readonly type: 'resync' | 'rendered' | 'shown' }
  | { readonly type: 'page'; readonly page: string }
  | RunRequest
  | { readonly type: 'stop'; readonly agent_id?: string }
  | { readonly type: 'steer'; readonly text: string; readonly agent_id?: string }
  | { readonly type: 'queue'; readonly text: string }
  | { readonly type: 'edit'; readonly id: string; readonly text: string; readonly agent_id: string }
  | { readonly type: 'unqueue'; readonly id: string; readonly agent_id: string }
  | ({ readonly type: 'decide' } & Decision)
  | ({ readonly type: 'answer' } & QuestionAnswer);

/** A snapshot may be lost. If frames arrive and no snapshot does, request it again after this long. */
const RETRY_MS = 3000;

const NO_QUESTIONS: Questions = { type: 'questions', now: 0, questions: [], notice: '' };

export class Connection {
  run: Run = EMPTY;
  questions: Questions = NO_QUESTIONS;
  /** The run as it was when the kernel ended; null while there is a kernel. */
  private before: Run | null = null;
  /** Whether the run is over and the kernel no longer has its events. */
  gone = false;
  private position = 0;
  /** When a snapshot was requested; null if none is due. */
  private requested: number | null = null;
  /** The difference between the kernel's clock and the browser's, in seconds. */
  private offset = 0;
  /** Whether no view shows the run any more. What was sent before the kernel knew is ignored then. */
  private released = false;
  private readonly changeListeners = new Set<() => void>();
  private readonly refusalListeners = new Set<(refusal: Refusal) => void>();
  readonly send: (command: Command) => void;
  /** What can be requested of the run when it is over. */
  readonly requests: RunRequests;
  private readonly clock: () => number;

  constructor(send: (command: Command) => void, clock: () => number = () => performance.now()) {
    this.send = send;
    this.requests = new RunRequests(send);
    this.clock = clock;
  }

  /** The kernel's time, in seconds since the epoch. */
  now(): number {
    return this.clock() / 1000 + this.offset;
  }

  /** Whether any part of the run has arrived. */
  get hasRun(): boolean {
    return this.run !== EMPTY;
  }

  /** Whether the kernel has ended. */
  get ended(): boolean {
    return this.before !== null;
  }

  /** The kernel has ended; if it sends again, the run goes on. */
  end(): void {
    if (this.before !== null) return;
    this.before = this.run;
    this.run = cutOffRun(this.run, this.now());
    for (const listener of this.changeListeners) listener();
  }

  resync(): void {
    this.released = false;
    this.requested = this.clock();
    this.send({ type: 'resync' });
  }

  receive(message: Incoming): void {
    if (message.type === 'gone') {
      this.gone = true;
      for (const listener of this.changeListeners) listener();
      return;
    }
    if (message.type === 'reply') {
      this.requests.receive(message);
      return;
    }
    if (message.type === 'refused') {
      for (const listener of this.refusalListeners) listener(message);
      return;
    }
    if (this.released) return;
    if (message.type === 'questions') {
      this.questions = message;
      this.offset = message.now - this.clock() / 1000;
      for (const listener of this.changeListeners) listener();
      return;
    }
    if (message.type === 'snapshot') {
      this.requested = null;
      this.run = foldAll(runOf(message.members ?? [], message.facts), message.events);
    } else if (this.requested !== null) {
      if (this.clock() - this.requested > RETRY_MS) this.resync();
      return;
    } else if (message.from !== this.position) {
      this.resync();
      return;
    } else {
      const before = this.before ?? this.run;
      this.run = foldAll(message.facts === undefined ? before : { ...before, facts: message.facts }, message.events);
    }
    this.before = null;
    this.position = message.to;
    this.offset = message.now - this.clock() / 1000;
    for (const listener of this.changeListeners) listener();
  }

  /** Forget the run, which is over, unless a view still shows it: a page keeps the connections of all its views. */
  release(): void {
    if (this.changeListeners.size > 0) return;
    this.released = true;
    this.requested = null;
    this.run = EMPTY;
    this.before = null;
    this.questions = NO_QUESTIONS;
  }

  /** Call `listener` after each change of the run. Returns a function that ends the subscription. */
  onChange(listener: () => void): () => void {
    this.changeListeners.add(listener);
    return () => this.changeListeners.delete(listener);
  }

  /** Call `listener` when a command fails. Returns a function that ends the subscription. */
  onRefusal(listener: (refusal: Refusal) => void): () => void {
    this.refusalListeners.add(listener);
    return () => this.refusalListeners.delete(listener);
  }
}
