/** Help with a cell: buttons under an error, and commands for every code cell. An agent's answer is a proposal. */

import type { Cell, CodeCell, MarkdownCell } from '@jupyterlab/cells';
import { Signal } from '@lumino/signaling';

import { h } from '../../view/dom.ts';
import { icon } from '../../view/icons.ts';
import type { NotebookCheck } from '../review/notebook-check.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { handsOver, promptAbout, promptOf } from './planck-cells.ts';
import type { ChangeSet, HelpStatus, HelpWanted } from '../kernel/protocol.generated.ts';
import { soon } from '../soon.ts';

export const ACTIONS = {
  fix: 'Fix',
  improve: 'Improve',
  document: 'Document',
  test: 'Write a Test for',
} as const satisfies Record<HelpWanted['action'], string>;

/** What commands offer for a cell. */
export type Offer = HelpWanted['action'] | 'explain' | 'selection' | 'question';

/** Shows below a cell's outputs what can be done about an error, and an agent's progress. */
export class CellHelp {
  /** Emitted when an agent can do something else with the active cell. */
  readonly changed = new Signal<this, void>(this);
  private readonly review: NotebookReview;
  private readonly check: NotebookCheck;
  private offered = '';
  private readonly bars = new Map<string, { readonly element: HTMLElement; readonly shows: string }>();
  private readonly followed = new WeakSet<object>();

  constructor(review: NotebookReview, check: NotebookCheck) {
    this.review = review;
    this.check = check;
    const { content } = review.panel;
    review.link.changed.connect(() => this.draw());
    content.modelContentChanged.connect(soon(() => this.draw()));
    content.activeCellChanged.connect(() => this.compare());
    this.draw();
  }

  /** Whether an agent can do something with the active cell now. */
  offers(command: Offer): boolean {
    const { activeCell: cell } = this.review.panel.content;
    if (cell === null || cell.isDisposed || !this.review.link.isConnected) return false;
    if (command === 'selection') return selectionIn(cell) !== '';
    if (command === 'question') return cell.model.type === 'markdown';
    if (cell.model.type !== 'code') return false;
    if (command !== 'explain' && this.review.link.help.get(cell.model.id)?.state === 'working') return false;
    if (command === 'fix') return hasError(cell as CodeCell) && !this.isProposed(cell.model.id);
    return command !== 'explain' || (cell as CodeCell).model.executionCount !== null;
  }

  /** Let an agent help with the active cell. */
  start(action: HelpWanted['action']): void {
    const cell = this.review.panel.content.activeCell;
    if (cell !== null) this.request(action, cell.model.id);
  }

  /** Explain the cell in a new one below it. */
  explain(): void {
    const cell = this.review.panel.content.activeCell;
    const count = cell?.model.type === 'code' ? (cell as CodeCell).model.executionCount : null;
    if (cell !== null && count !== null) this.review.insertBelow(cell.model.id, `%planck explain --cell ${count}`, true);
  }

  /** Begin a prompt about the selected text; the person completes it. */
  askAboutSelection(): void {
    const cell = this.review.panel.content.activeCell;
    const text = cell === null ? '' : selectionIn(cell);
    if (cell === null || text === '') return;
    const { codeMimetype, model } = this.review.panel.content;
    const language = cell.model.mimeType === codeMimetype ? (model?.defaultKernelLanguage ?? '') : 'markdown';
    this.review.insertBelow(cell.model.id, promptAbout(text, language));
  }

  /** Send a Markdown cell's text as a prompt, unless it hands something over that its author alone has chosen. */
  ask(): void {
    const cell = this.review.panel.content.activeCell;
    if (cell === null || cell.model.type !== 'markdown') return;
    const prompt = promptOf(cell.model.sharedModel.getSource());
    if (prompt === promptOf('')) this.review.tell('The cell is empty; write a question into it.');
    else if (!handsOver(prompt)) this.review.insertBelow(cell.model.id, prompt, true);
    else if (this.review.insertBelow(cell.model.id, prompt))
      this.review.tell('What follows an @ may be sent along, such as a file: run the cell if it should be.');
  }

  private request(action: HelpWanted['action'], cell: string): void {
    this.review.link.help.set(cell, { type: 'help status', cell, text: 'Asks an agent', state: 'working' });
    this.review.link.send({ type: 'help wanted', action, cell, words: '' });
    this.draw();
  }

  private draw(): void {
    if (this.review.panel.isDisposed) return;
    const { content } = this.review.panel;
    const seen = new Set<string>();
    for (const cell of content.widgets) {
      if (cell.model.type !== 'code') continue;
      this.follow(cell as CodeCell);
      seen.add(cell.model.id);
      this.drawAt(cell as CodeCell);
    }
    for (const id of this.bars.keys()) if (!seen.has(id)) this.remove(id);
    this.review.panel.toggleClass('planck-connected', this.review.link.isConnected);
    this.compare();
  }

  /** Say when the offers change, which outputs do without end while a cell prints. */
  private compare(): void {
    const offered = JSON.stringify((['fix', 'explain', 'improve', 'question'] as const).map((each) => this.offers(each)));
    if (offered === this.offered) return;
    this.offered = offered;
    this.changed.emit();
  }

  /** Draw again when a cell's outputs change. */
  private follow(cell: CodeCell): void {
    if (this.followed.has(cell)) return;
    this.followed.add(cell);
    const look = (): void => {
      this.drawAt(cell);
      this.compare();
    };
    cell.model.outputs.changed.connect(look);
    cell.model.stateChanged.connect((_, { name }) => {
      if (name === 'executionCount') look();
    });
  }

  private drawAt(cell: CodeCell): void {
    if (cell.isDisposed || this.review.panel.isDisposed) return;
    const { id } = cell.model;
    const { link } = this.review;
    const status = link.help.get(id);
    const offers = link.isConnected && status === undefined && hasError(cell) && !this.isProposed(id);
    const shows = status !== undefined ? `${status.state} ${status.text}` : offers ? 'offer' : '';
    const before = this.bars.get(id);
    if (before?.shows === shows && (before.element.isConnected || !cell.isAttached)) return;
    this.remove(id);
    if (shows === '') return;
    const element = h('div', { class: 'pk planck-help', 'data-lm-suppress-shortcuts': 'true' }, status ? this.strip(status) : this.offer(id));
    element.addEventListener('mousedown', (event) => event.stopPropagation());
    this.bars.set(id, { element, shows });
    void cell.ready.then(() => {
      if (this.bars.get(id)?.element === element && !cell.isDisposed) cell.node.querySelector(':scope > .jp-Cell-outputWrapper')?.after(element);
    });
  }

  private isProposed(id: string): boolean {
    return this.review.open.some(({ set, change }) => set.run && change.cell === id);
  }

  private remove(id: string): void {
    this.bars.get(id)?.element.remove();
    this.bars.delete(id);
  }

  private offer(id: string): HTMLElement {
    const fix = this.button('Fix', () => this.request('fix', id));
    const explain = this.button('Explain', () => {
      this.review.show(id);
      this.explain();
    });
    const { model } = this.review.link;
    const what = model === '' ? 'your model' : model;
    return h('div', { class: 'pk-row' }, fix, explain, h('span', { class: 'pk-mute' }, `Sends this cell and its error to ${what}`));
  }

  private strip({ cell, text, state }: HelpStatus): HTMLElement {
    const shape = ({ working: 'ring', done: 'check', failed: 'cross', '': 'dot' } as const)[state];
    const end = (): void => {
      if (state === 'working') this.review.link.send({ type: 'help stopped', cell });
      this.review.link.help.delete(cell);
      this.draw();
    };
    const acts = h('span', { class: 'pk-acts' });
    const [latest] = this.corrections(cell);
    if (state !== 'working' && latest !== undefined)
      acts.append(
        this.button('Verify', () => this.check.ask(latest.id), 'bare'),
        this.button('Take back', () => void this.takeBack(cell), 'bare'),
      );
    acts.append(this.button(state === 'working' ? 'Stop' : 'Close', end, state === 'working' ? '' : 'bare'));
    const mark = h('span', { class: 'pk-mark', 'data-state': state === 'working' ? 'run' : state === 'failed' ? 'bad' : 'done' }, icon(shape));
    return h('div', { class: 'pk-strip', role: 'status' }, mark, h('strong', {}, text), acts);
  }

  /** A cell's accepted corrections, the newest first. */
  private corrections(cell: string): readonly ChangeSet[] {
    return this.review.applied.filter(({ changes, run }) => run && changes.some((change) => change.cell === cell));
  }

  /** Take all corrections back: each was made from the one before. */
  private async takeBack(cell: string): Promise<void> {
    for (const set of this.corrections(cell)) await this.review.takeBack(set);
    this.review.link.help.delete(cell);
    this.draw();
  }

  private button(text: string, action: () => void, kind = ''): HTMLButtonElement {
    const element = h('button', { class: 'pk-btn', type: 'button', ...(kind !== '' && { 'data-kind': kind }) }, text);
    element.addEventListener('click', action);
    return element;
  }
}

/** The selected text in a cell's editor, or in its rendered Markdown. */
export function selectionIn(cell: Cell): string {
  const { editor } = cell;
  const isRendered = cell.model.type === 'markdown' && (cell as MarkdownCell).rendered;
  if (editor !== null && !isRendered) {
    const { start, end } = editor.getSelection();
    return editor.model.sharedModel.getSource().slice(editor.getOffsetAt(start), editor.getOffsetAt(end));
  }
  const selection = document.getSelection();
  const isHere = selection?.anchorNode != null && cell.node.contains(selection.anchorNode) && cell.node.contains(selection.focusNode);
  return isHere ? selection.toString().trim() : '';
}

function hasError(cell: CodeCell): boolean {
  const { outputs, sharedModel } = cell.model;
  for (let at = 0; at < (outputs?.length ?? 0); at++) {
    const output = outputs.get(at);
    if (output.type !== 'error') continue;
    if (output.toJSON()['ename'] === 'KeyboardInterrupt') return false; // the person stopped it
    return !sharedModel.getSource().trimStart().startsWith('%'); // an agent's output has its own doors
  }
  return false;
}
