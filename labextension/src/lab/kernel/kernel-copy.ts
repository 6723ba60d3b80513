/** A page's copy for a kernel's agents: asked for seldom, and kept while the kernel is silent. */

import type { AgentEntry, Overview, Stored } from './protocol.generated.ts';

/** The shortest time between two questions. */
export const ASK_MS = 2000;
/** From this age on, what the copy says may be past. */
export const OLD_SECONDS = 3;

const NOTHING: Stored = { sessions: [], cost: null, unpriced: false, tokens: 0, problem: '', untrusted: [] };

export class KernelCopy {
  overview: Overview | null = null;
  history: Stored = NOTHING;
  private received = 0;
  private asked = -Infinity;
  private isAsking = false;
  private isPast = false;
  private readonly question: (stored: number) => Promise<Overview | null>;

  /** `question` asks the kernel; it resolves to null if that ends. */
  constructor(question: (stored: number) => Promise<Overview | null>) {
    this.question = question;
  }

  /** Ask if it is time, given a clock in milliseconds. Resolves to whether the copy is new. */
  async ask(now: number): Promise<boolean> {
    if (this.isAsking || now - this.asked < ASK_MS) return false;
    this.isAsking = true;
    this.asked = now;
    const answer = await this.question(this.overview?.stored ?? 0);
    this.isAsking = false;
    if (answer === null) return false;
    this.overview = answer;
    this.history = answer.history ?? this.history;
    this.received = performance.now();
    this.isPast = false;
    return true;
  }

  /** Take what is known for past: something has just ended. */
  expire(): void {
    this.isPast = true;
  }

  /** Forget a kernel that has ended. */
  clear(): void {
    this.overview = null;
    this.history = NOTHING;
  }

  /** Whether a cell runs, as far as this is known. */
  isBusy(now: number): boolean {
    return this.overview === null || this.overview.running || this.isPast || this.age(now) > OLD_SECONDS;
  }

  /** The copy's age in seconds. */
  age(now: number): number {
    return this.overview === null ? 0 : this.overview.age + (now - this.received) / 1000;
  }

  /** For how many seconds an answer has been awaited. */
  silence(now: number): number {
    return this.isAsking ? (now - this.asked) / 1000 : 0;
  }

  /** The kernel's time, in seconds since the epoch. */
  time(now: number): number {
    return this.overview === null ? 0 : this.overview.now + (now - this.received) / 1000;
  }
}

/** What an agent does, in a few words. */
export function doing({ status, waits_for: waits }: AgentEntry, isOld: boolean): string {
  if (waits !== '') return `${isOld ? 'Waited' : 'Waits'} for ${waits}`;
  if (status === 'idle') return 'Idle';
  return { streaming: isOld ? 'Was writing' : 'Writing', executing_tools: isOld ? 'Was using tools' : 'Uses tools' }[status];
}

/** The rows to draw among many with one height, and the space before and after them. `more` is the open row's extra height. */
export function windowOf(
  count: number,
  { top, height, row, open, more }: { top: number; height: number; row: number; open: number; more: number },
): { readonly first: number; readonly last: number; readonly before: number; readonly after: number } {
  const spare = 8;
  const first = Math.max(0, Math.min(count, Math.floor(top / row) - spare));
  const last = Math.min(count, Math.ceil((top + height) / row) + spare);
  const extra = (is: boolean): number => (is ? more : 0);
  const before = first * row + extra(open >= 0 && open < first);
  const after = (count - last) * row + extra(open >= last && open < count);
  return { first, last, before, after };
}
