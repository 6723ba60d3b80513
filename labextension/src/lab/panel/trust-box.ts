/** What waits for a person's trust, shown whole, and the button for exactly this. */

import { html, nothing } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

import { OLD_SECONDS } from '../kernel/kernel-copy.ts';
import type { KernelCopy } from '../kernel/kernel-copy.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { act } from './panel-parts.ts';
import type { Stored, TrustEntry } from '../kernel/protocol.generated.ts';

/** For how long new lines cannot be trusted: a click on its way would trust them unread. */
const READ_MS = 1000;

/** A decision on its way to the kernel. */
interface Pending {
  readonly keys: readonly string[];
  isSent: boolean;
  /** What was known when the kernel had trusted it; what follows shows the rest. */
  settled: Stored | null;
}

export class TrustBox {
  private readonly pending = new Map<NotebookReview, Pending>();
  private readonly redraw: () => void;
  private shown = '';
  private shownAt = 0;

  constructor(redraw: () => void) {
    this.redraw = redraw;
  }

  /** Send a waiting decision if the kernel answers. */
  next(review: NotebookReview, copy: KernelCopy): void {
    const pending = this.pending.get(review);
    if (pending === undefined) return;
    if (pending.settled !== null && pending.settled !== copy.history) this.pending.delete(review);
    if (pending.isSent || !review.link.isConnected || copy.overview === null || copy.age(performance.now()) > OLD_SECONDS) return;
    pending.isSent = true;
    review.link.send({ type: 'trust', keys: pending.keys });
  }

  /** Follow the kernel's answer; `problem` is empty without one. */
  settle(review: NotebookReview, copy: KernelCopy, problem: string): void {
    const pending = this.pending.get(review);
    if (problem !== '' || pending === undefined) this.pending.delete(review);
    else pending.settled = copy.history;
  }

  /** Forget an ended kernel. */
  forget(review: NotebookReview): void {
    this.pending.delete(review);
  }

  content(review: NotebookReview, { history }: KernelCopy): TemplateResult | typeof nothing {
    const entries = history.untrusted;
    const keys = entries.map(({ key }) => key);
    const now = performance.now();
    const shown = `${review.panel.id} ${keys.join(' ')}`;
    if (shown !== this.shown) [this.shown, this.shownAt] = [shown, now];
    if (entries.length === 0) return nothing;
    return html`<h2>Waits for trust<span>${entries.length}</span></h2>
      <p class="pk-hint">None of this is used before you trust it. If it changes, you are asked again.</p>
      ${repeat(entries, ({ key }) => key, entryOf)}
      <div class="planck-acts">${this.actions(review, keys, now - this.shownAt < READ_MS)}</div>`;
  }

  private actions(review: NotebookReview, keys: readonly string[], isNew: boolean): TemplateResult {
    const pending = this.pending.get(review);
    if (pending?.isSent) return html`<small role="status">The kernel is told.</small>`;
    if (pending !== undefined) {
      const withdraw = act('Withdraw', () => {
        this.pending.delete(review);
        this.redraw();
      });
      return html`<small role="status">Waits until the kernel is free.</small>${withdraw}`;
    }
    const trust = (): void => {
      this.pending.set(review, { keys, isSent: false, settled: null });
      this.redraw();
    };
    return html`<button class="pk-btn" type="button" ?disabled=${isNew} @click=${trust}>Trust ${keys.length === 1 ? 'this' : `these ${keys.length}`}</button>`;
  }
}

function entryOf({ title, path, status, lines }: TrustEntry): TemplateResult {
  const line = ([sign, text]: readonly unknown[]): TemplateResult =>
    html`<div data-sign=${String(sign)}>${sign === '' ? text : `${String(sign)} ${String(text)}`}</div>`;
  return html`<section class="planck-trust" aria-label=${`${title}, ${path}`}><b>${title}</b><small>${status}, ${path}</small><div class="planck-lines">${lines.map(line)}</div></section>`;
}
