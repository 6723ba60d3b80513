/** The browser's end of the wire: keeps the run as far as it was sent, and asks again when something is missing. */

import { cutOff, EMPTY, foldAll } from './model.ts';
import type { Run, RunEvent } from './model.ts';

export type Incoming =
  | {
      readonly type: 'frame';
      readonly from: number;
      readonly to: number;
      readonly now: number;
      readonly events: readonly RunEvent[];
    }
  | { readonly type: 'snapshot'; readonly to: number; readonly now: number; readonly events: readonly RunEvent[] }
  | Refusal;

/** Why something could not be done, with the text that was to be sent. */
export interface Refusal {
  readonly type: 'refused';
  readonly reason: string;
  readonly text: string;
}

export interface Decision {
  readonly id: string;
  readonly allow: boolean;
  /** The arguments that were edited; null for none. */
  readonly args: Readonly<Record<string, unknown>> | null;
  readonly remember: boolean;
  readonly reason: string;
}

export type Outgoing =
  | { readonly type: 'resync' | 'stop' }
  | { readonly type: 'steer' | 'queue'; readonly text: string }
  | { readonly type: 'edit'; readonly id: string; readonly text: string }
  | { readonly type: 'unqueue'; readonly id: string }
  | ({ readonly type: 'decide' } & Decision);

/** An answer may be lost. As long as frames come in and no snapshot does, ask again after this long. */
const ASK_AGAIN_MS = 3000;

export class Channel {
  run: Run = EMPTY;
  /** The run as it was when the kernel ended; null while there is a kernel. */
  private before: Run | null = null;
  private position = 0;
  private asked: number | null = null;
  /** What to add to the browser's clock to get the run's seconds. */
  private offset = 0;
  private readonly listeners = new Set<() => void>();
  private readonly refused = new Set<(refusal: Refusal) => void>();
  /** Ask the kernel for something. */
  readonly send: (message: Outgoing) => void;
  private readonly clock: () => number;

  constructor(send: (message: Outgoing) => void, clock: () => number = () => performance.now()) {
    this.send = send;
    this.clock = clock;
  }

  /** Seconds since the run's first event. */
  now(): number {
    return this.clock() / 1000 + this.offset;
  }

  /** Whether the kernel is gone. */
  get ended(): boolean {
    return this.before !== null;
  }

  /** The kernel is gone; should it speak again, the run goes on. */
  end(): void {
    if (this.before !== null) return;
    this.before = this.run;
    this.run = cutOff(this.run, this.now());
    for (const listener of this.listeners) listener();
  }

  resync(): void {
    this.asked = this.clock();
    this.send({ type: 'resync' });
  }

  receive(message: Incoming): void {
    if (message.type === 'refused') {
      for (const listener of this.refused) listener(message);
      return;
    }
    if (message.type === 'snapshot') {
      this.asked = null;
      this.run = foldAll(EMPTY, message.events);
    } else if (this.asked !== null) {
      if (this.clock() - this.asked > ASK_AGAIN_MS) this.resync();
      return;
    } else if (message.from !== this.position) {
      this.resync();
      return;
    } else {
      this.run = foldAll(this.before ?? this.run, message.events);
    }
    this.before = null;
    this.position = message.to;
    this.offset = message.now - this.clock() / 1000;
    for (const listener of this.listeners) listener();
  }

  /** Call `listener` after each change; returns what ends that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Call `listener` when something could not be done; returns what ends that. */
  onRefusal(listener: (refusal: Refusal) => void): () => void {
    this.refused.add(listener);
    return () => this.refused.delete(listener);
  }
}
