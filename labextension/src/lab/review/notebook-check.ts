/** Verification of an accepted set: what was agreed to, how far it is, and how it ended. Without DOM. */

import { Signal } from '@lumino/signaling';

import { isApplied } from '../kernel/kernel-link.ts';
import type { CheckMessage } from '../kernel/kernel-link.ts';
import type { NotebookReview } from './notebook-review.ts';
import { cellsOf, KEPT_OF_SET, KEPT_OUTPUTS, lengthOf } from './proposals.ts';
import type { CellData, SharedNotebook } from './proposals.ts';
import type { CheckedCell, CheckOffer, CheckProgress, CheckResult } from '../kernel/protocol.generated.ts';

export type CheckState =
  | { readonly kind: 'none' }
  | { readonly kind: 'asked'; readonly set: string }
  | { readonly kind: 'offered'; readonly set: string; readonly offer: CheckOffer; readonly cells: number }
  | { readonly kind: 'running'; readonly set: string; readonly progress: CheckProgress | null }
  | { readonly kind: 'ended'; readonly set: string; readonly result: CheckResult };

const NONE: CheckState = { kind: 'none' };
const LOST = 'The kernel has ended, and the check with it.';

export class NotebookCheck {
  readonly changed = new Signal<this, void>(this);
  private readonly review: NotebookReview;
  private now: CheckState = NONE;

  constructor(review: NotebookReview) {
    this.review = review;
    review.link.checks.connect((_, message) => this.receive(message));
    review.link.changed.connect(() => this.follow());
  }

  get state(): CheckState {
    return this.now;
  }

  /** Ask what a check would do; a running one stays. */
  ask(set: string): void {
    if (this.now.kind === 'running') return;
    this.become({ kind: 'asked', set });
    this.review.link.send({ type: 'check wanted', set });
  }

  /** Start what was offered, as the person has agreed. */
  start(): void {
    if (this.now.kind !== 'offered') return;
    const { set, offer } = this.now;
    this.become({ kind: 'running', set, progress: null });
    const cells = cellsOf(this.shared);
    this.review.link.send({ type: 'check started', set, cells: checkedCells(cells), total: cells.length, copied: offer.copied });
  }

  /** Stop a running check. */
  stop(): void {
    if (this.now.kind === 'running') void this.review.link.question({ type: 'check stopped', set: this.now.set });
  }

  close(): void {
    this.stop();
    this.become(NONE);
  }

  private receive(message: CheckMessage): void {
    if (message.type === 'stale cells' || this.now.kind === 'none' || message.set !== this.now.set) return;
    const { set, kind } = this.now;
    if (message.type === 'check offer') {
      if (kind !== 'asked') return;
      if (message.problem === '') this.become({ kind: 'offered', set, offer: message, cells: checkedCells(cellsOf(this.shared)).length });
      else this.become({ kind: 'ended', set, result: ended(set, message.problem) });
    } else if (kind === 'running') {
      if (message.type === 'check progress') void this.review.link.question({ type: 'check seen', set });
      this.become(message.type === 'check progress' ? { kind, set, progress: message } : { kind: 'ended', set, result: message });
    }
  }

  /** End with the kernel, and with the set: what was taken back needs no check. */
  private follow(): void {
    if (this.now.kind === 'none' || this.now.kind === 'ended') return;
    const { set } = this.now;
    if (!this.review.link.isConnected) this.become({ kind: 'ended', set, result: ended(set, LOST) });
    else if (!this.review.link.sets.some(({ id, changes }) => id === set && changes.some(isApplied))) this.close();
  }

  private become(state: CheckState): void {
    this.now = state;
    this.changed.emit();
  }

  private get shared(): SharedNotebook {
    return this.review.panel.content.model!.sharedModel as unknown as SharedNotebook;
  }
}

/** The code cells, each with its outputs if there are any to compare; very long ones are left out. */
export function checkedCells(cells: readonly CellData[]): CheckedCell[] {
  let left = KEPT_OF_SET;
  return cells.flatMap(({ id, cell_type: type, source, outputs = [], execution_count: count = null }, at) => {
    if (type !== 'code' || source.trim() === '') return [];
    const most = Math.min(KEPT_OUTPUTS, left);
    const length = lengthOf(outputs, most);
    const isCompared = (count !== null || outputs.length > 0) && length <= most;
    if (isCompared) left -= length;
    return [{ id, number: at + 1, source, outputs: isCompared ? (outputs as never) : null }];
  });
}

function ended(set: string, text: string): CheckResult {
  return { type: 'check result', set, state: 'ended', text, cell: '', before: '', after: '' };
}
