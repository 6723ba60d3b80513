/** Open proposals in the side panel, which are decided as their notebook's review shows them. */

import { html, nothing } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

import type { ChangeSet } from '../kernel/protocol.generated.ts';
import { acceptLabel, readyOf } from '../review/notebook-review.ts';
import type { NotebookReview, Shown } from '../review/notebook-review.ts';
import type { Reviews } from '../review/reviews.ts';
import { act, glyph } from './panel-parts.ts';

const CHANGED = 'The proposal has changed meanwhile, so nothing was decided; read it again.';

/** A set's open changes. */
interface Row {
  readonly review: NotebookReview;
  readonly set: ChangeSet;
  readonly shown: readonly Shown[];
}

export class ProposalList {
  private readonly reviews: Reviews;
  private readonly activate: (review: NotebookReview) => void;
  private readonly tell: (text: string) => void;
  private readonly root: HTMLElement;

  /** `root` is the panel; `tell` shows a sentence to the person, or takes it away, and draws the panel. */
  constructor(root: HTMLElement, reviews: Reviews, activate: (review: NotebookReview) => void, tell: (text: string) => void) {
    this.root = root;
    this.reviews = reviews;
    this.activate = activate;
    this.tell = tell;
  }

  content(current: NotebookReview | null): TemplateResult | typeof nothing {
    const rows = [...this.reviews.all].flatMap(rowsOf);
    if (rows.length === 0) return nothing;
    return html`<h2>Proposed<span>${rows.length}</span></h2>
      <ul class="planck-list">${repeat(rows, ({ set }) => set.id, (row) => this.row(row, row.review !== current))}</ul>`;
  }

  private row(row: Row, isElsewhere: boolean): TemplateResult {
    const { review, set, shown } = row;
    const ready = readyOf(shown);
    const count = shown.length === 1 ? '1 change' : `${shown.length} changes`;
    const places = [...new Set(shown.map(({ place }) => place))].slice(0, 3).join(', ');
    const says = [count, ready.length < shown.length ? `${ready.length} ready` : '', places, isElsewhere ? review.panel.title.label : ''];
    const accept = ready.length < shown.length ? acceptLabel(ready) : set.run ? 'Accept and run' : 'Accept';
    const isReadable = ready.length > 0 && !isElsewhere; // what a person accepts is in sight
    const decide = (isAccepted: boolean) => (): void => void this.decide(row, isAccepted);
    return html`<li class="planck-proposal" aria-label=${`Proposal by ${set.agent}`}>
      <span class="pk-mark" data-state="ask">${glyph('diamond')}</span>
      <span class="planck-name">${set.agent}</span><small>${says.filter((text) => text !== '').join(' · ')}</small>
      <span class="pk-acts">
        ${isReadable ? act(accept, decide(true), 'bare') : nothing}${act('Refuse', decide(false), 'bare')}${act('Show', () => this.show(review), 'bare')}
      </span>
    </li>`;
  }

  /** Decide about a set if the review still shows what the panel has drawn. */
  private async decide({ review, set, shown }: Row, isAccepted: boolean): Promise<void> {
    const now = review.open.filter((each) => each.set.id === set.id);
    if (JSON.stringify(now.map(({ key }) => key)) !== JSON.stringify(shown.map(({ key }) => key))) {
      this.tell(CHANGED);
      return this.show(review);
    }
    await review.decide(isAccepted ? readyOf(now) : now, isAccepted);
    this.tell('');
    if (document.activeElement !== document.body) return;
    // The pressed button is gone: a person at the keyboard goes on from its row, or from the prompt box.
    const next = this.root.querySelector<HTMLElement>('.planck-proposal button') ?? this.root.querySelector<HTMLElement>('textarea');
    next?.focus();
  }

  private show(review: NotebookReview): void {
    this.activate(review);
    review.revealed.emit();
  }
}

function rowsOf(review: NotebookReview): Row[] {
  const sets = new Map<ChangeSet, Shown[]>();
  for (const shown of review.open) {
    const others = sets.get(shown.set);
    if (others === undefined) sets.set(shown.set, [shown]);
    else others.push(shown);
  }
  return [...sets].map(([set, shown]) => ({ review, set, shown }));
}
