/** The page's notebooks, for parts which are about several. */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import type { NotebookReview } from './notebook-review.ts';
import type { Activity } from '../kernel/protocol.generated.ts';

export class Reviews {
  readonly all = new Set<NotebookReview>();
  /** Elements outside notebooks with an answer, and where its code may be inserted. */
  readonly answers = new Map<HTMLElement, NotebookReview>();
  /** Emitted when a notebook was opened or closed, or another one is in front. */
  readonly changed = new Signal<this, void>(this);
  /** Emitted with a notebook and the activity before. */
  readonly activityChanged = new Signal<this, readonly [NotebookReview, Activity | null]>(this);
  private readonly notebooks: INotebookTracker;

  constructor(notebooks: INotebookTracker) {
    this.notebooks = notebooks;
    notebooks.currentChanged.connect(() => this.changed.emit());
  }

  /** The notebook in front; another view with the same document counts. */
  get current(): NotebookReview | null {
    return this.of(this.notebooks.currentWidget);
  }

  of(panel: NotebookPanel | null): NotebookReview | null {
    for (const review of this.all) if (review.panel.context === panel?.context) return review;
    return null;
  }

  add(review: NotebookReview): void {
    this.all.add(review);
    review.link.activityChanged.connect((_, before) => this.activityChanged.emit([review, before]));
    this.changed.emit();
  }

  delete(review: NotebookReview): void {
    this.all.delete(review);
    this.changed.emit();
  }
}

export type IReviews = Reviews;

export const IReviews = new Token<IReviews>('@planck-nb/lab:IReviews', 'All notebooks on the page.');
