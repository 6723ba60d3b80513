/** The browser's end of the wire: keeps the run as far as it was sent, and asks again when something is missing. */

import { EMPTY, foldAll } from './model.ts';
import type { Run, RunEvent } from './model.ts';

export type Incoming =
  | {
      readonly type: 'frame';
      readonly from: number;
      readonly to: number;
      readonly now: number;
      readonly events: readonly RunEvent[];
    }
  | { readonly type: 'snapshot'; readonly to: number; readonly now: number; readonly events: readonly RunEvent[] };

export type Outgoing = { readonly type: 'resync' | 'stop' };

/** An answer may be lost. As long as frames come in and no snapshot does, ask again after this long. */
const ASK_AGAIN_MS = 3000;

export class Channel {
  run: Run = EMPTY;
  private position = 0;
  private asked: number | null = null;
  /** What to add to the browser's clock to get the run's seconds. */
  private offset = 0;
  private readonly listeners = new Set<() => void>();
  private readonly send: (message: Outgoing) => void;
  private readonly clock: () => number;

  constructor(send: (message: Outgoing) => void, clock: () => number = () => performance.now()) {
    this.send = send;
    this.clock = clock;
  }

  /** Seconds since the run's first event. */
  now(): number {
    return this.clock() / 1000 + this.offset;
  }

  resync(): void {
    this.asked = this.clock();
    this.send({ type: 'resync' });
  }

  stop(): void {
    this.send({ type: 'stop' });
  }

  receive(message: Incoming): void {
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
      this.run = foldAll(this.run, message.events);
    }
    this.position = message.to;
    this.offset = message.now - this.clock() / 1000;
    for (const listener of this.listeners) listener();
  }

  /** Call `listener` after each change; returns what ends that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
