/** Marks cells below an accepted change which use its names, until they run. */

import type { Cell, CodeCell } from '@jupyterlab/cells';

import { h } from '../../view/dom.ts';
import { icon } from '../../view/icons.ts';
import type { CheckMessage } from '../kernel/kernel-link.ts';
import type { NotebookReview } from './notebook-review.ts';
import { soon } from '../soon.ts';
import type { Operation } from './proposals.ts';
import type { CellText, ChangeSet } from '../kernel/protocol.generated.ts';

interface Mark {
  readonly set: string;
  readonly element: HTMLElement;
}

export class StaleCellMarks {
  private readonly review: NotebookReview;
  private readonly marks = new Map<string, Mark>();
  private readonly followed = new WeakSet<Cell>();
  /** The sets about which the kernel was asked and has not answered, each with cells that are not marked. */
  private readonly asked = new Map<string, readonly [string, ReadonlySet<string>]>();
  private requests = 0;

  constructor(review: NotebookReview) {
    this.review = review;
    review.applying.connect((_, [set, operations]) => this.ask(set, operations));
    review.link.checks.connect((_, message) => this.receive(message));
    review.link.changed.connect(() => {
      if (!review.link.isConnected) this.forget();
    });
    review.panel.content.modelContentChanged.connect(soon(() => this.place()));
  }

  /** Ask which cells use the names. Cells which have not run since a set was accepted are not stale without it. */
  private ask(set: ChangeSet, operations: readonly Operation[]): void {
    const spared = new Set([...this.marks].filter(([, mark]) => mark.set === set.id).map(([id]) => id));
    for (const id of spared) this.remove(id);
    const { content } = this.review.panel;
    const cells = content.widgets
      .filter(({ model }) => model.type === 'code')
      .map(({ model }): CellText => ({ id: model.id, source: model.sharedModel.getSource() }));
    const request = String(++this.requests);
    this.asked.set(request, [set.id, spared]);
    this.review.link.send({ type: 'changed cells', request, cells, before: operations.map(textBefore) });
  }

  private receive(message: CheckMessage): void {
    if (message.type !== 'stale cells') return;
    const asked = this.asked.get(message.request);
    if (asked === undefined) return;
    this.asked.delete(message.request);
    const [set, spared] = asked;
    for (const [id, names] of Object.entries(message.cells)) {
      const cell = this.review.cell(id);
      if (cell === undefined || spared.has(id) || (cell as CodeCell).model.executionCount === null) continue; // never run
      this.remove(id);
      this.marks.set(id, { set, element: note(names) });
      this.follow(cell as CodeCell);
    }
    this.place();
  }

  /** Drop the mark when the cell begins to run. */
  private follow(cell: CodeCell): void {
    if (this.followed.has(cell)) return;
    this.followed.add(cell);
    cell.model.stateChanged.connect((_, { name }) => {
      if (name === 'executionCount') this.remove(cell.model.id);
    });
  }

  private place(): void {
    if (this.review.panel.isDisposed) return;
    for (const [id, { element }] of this.marks) {
      const cell = this.review.cell(id);
      if (cell === undefined) this.remove(id);
      else if (!cell.node.contains(element))
        void cell.ready.then(() => {
          if (!cell.isDisposed && this.marks.get(id)?.element === element) cell.node.querySelector(':scope > .jp-Cell-outputWrapper')?.before(element);
        });
    }
  }

  private remove(id: string): void {
    this.marks.get(id)?.element.remove();
    this.marks.delete(id);
  }

  private forget(): void {
    for (const id of [...this.marks.keys()]) this.remove(id);
    this.asked.clear();
  }
}

function textBefore(operation: Operation): CellText {
  if (operation.kind === 'insert') return { id: operation.cell.id, source: '' };
  return { id: operation.id, source: operation.before ?? '' };
}

function note(names: readonly string[]): HTMLElement {
  const parts = names.slice(0, 3).flatMap((name, at) => [at > 0 ? ', ' : '', h('code', {}, name)]);
  if (names.length > 3) parts.push(` and ${names.length - 3} more`);
  const text = h('span', {}, h('strong', {}, 'Stale'), ' until it runs: ', ...parts, ' changed above');
  return h('div', { class: 'pk planck-help planck-stale' }, h('div', { class: 'pk-strip', role: 'note' }, h('span', { class: 'pk-mark' }, icon('clock')), text));
}
