/** Shows a verification: consent, progress and the first difference. */

import { h, withCode } from '../../view/dom.ts';
import { icon } from '../../view/icons.ts';
import { diffBox } from '../../view/text-boxes.ts';
import { lineDiff } from './line-diff.ts';
import type { CheckState, NotebookCheck } from './notebook-check.ts';
import type { NotebookReview } from './notebook-review.ts';
import type { CheckOffer, CheckProgress, CheckResult } from '../kernel/protocol.generated.ts';

const MARKS = { same: ['check', 'done'], different: ['cross', 'bad'], ended: ['square', ''] } as const;

export class CheckView {
  readonly element = h('div', { class: 'planck-check', hidden: '' });
  private readonly review: NotebookReview;
  private readonly check: NotebookCheck;
  private readonly redraw: () => void;
  private shown: CheckState['kind'] = 'none';
  private readonly where = h('strong');

  /** `redraw` follows when the size changes. */
  constructor(review: NotebookReview, check: NotebookCheck, redraw: () => void) {
    this.review = review;
    this.check = check;
    this.redraw = redraw;
    check.changed.connect(() => this.draw());
  }

  private draw(): void {
    const { state } = this.check;
    if (state.kind === 'running' && this.shown === 'running') {
      this.where.textContent = progressText(state.progress);
      return;
    }
    const hadFocus = this.element.contains(document.activeElement);
    this.shown = state.kind;
    this.element.hidden = state.kind === 'none';
    this.element.replaceChildren(...this.parts(state));
    this.redraw();
    if (hadFocus) this.element.querySelector('button')?.focus();
    if (state.kind === 'ended') this.review.said.emit(state.result.text);
  }

  private parts(state: CheckState): Node[] {
    switch (state.kind) {
      case 'none':
        return [];
      case 'asked':
        this.where.textContent = 'Verify: waits for the kernel';
        return [strip(['ring', 'run'], this.where, button('Cancel', () => this.check.close()))];
      case 'offered':
        return [this.consent(state.offer, state.cells)];
      case 'running':
        this.where.textContent = progressText(state.progress);
        return [strip(['ring', 'run'], this.where, button('Stop', () => this.check.stop()))];
      case 'ended':
        return this.result(state.result);
    }
  }

  private consent({ folder, files, size, copied, python }: CheckOffer, cells: number): HTMLElement {
    const place = copied
      ? ['a copy of ', h('code', {}, folder), ` (${counted(files, 'file')}, ${bytes(size)}; without files that look like secrets)`]
      : ['an empty folder: ', h('code', {}, folder), ' is too large, so files are not copied'];
    const start = button('Run the check', () => this.check.start(), 'main');
    const what = [`Verify runs ${cells === 1 ? 'the cell' : `all ${cells} cells`} from the top in a new kernel, `, h('code', {}, python), ', in '];
    return h(
      'section',
      { class: 'pk-ask', role: 'group', 'aria-label': 'Verify the accepted changes' },
      h('div', { class: 'pk-line' }, h('span', { class: 'pk-mark', 'data-state': 'ask' }, icon('diamond')), h('span', { class: 'pk-what' }, h('b', {}, 'Verify'), ' the accepted changes?')),
      h(
        'div',
        { class: 'pk-body' },
        h('p', { class: 'pk-why' }, ...what, ...place, '. Kernel and copy are deleted afterwards.'),
        h('p', { class: 'pk-why' }, 'Code with effects outside of the folder, such as a request or a change in a database, happens again.'),
        h('p', { class: 'pk-why' }, ...withCode('`%planck` cells get their answers from the session: no model is asked, and there are no keys. Calls run again; those that need approval are denied.')),
        h('div', { class: 'pk-row' }, start, button('Cancel', () => this.check.close())),
      ),
    );
  }

  private result({ set, state, text, cell, before, after }: CheckResult): Node[] {
    const acts = [button('Verify again', () => this.check.ask(set), 'bare'), button('Close', () => this.check.close(), 'bare')];
    if (cell !== '') acts.unshift(button('Show cell', () => this.review.show(cell), 'bare'));
    const bar = strip(MARKS[state], h('strong', {}, 'Verify: ', text), ...acts);
    if (state !== 'different') return [bar];
    const lines = lineDiff(before, after);
    const legend = h('p', { class: 'pk-mute' }, '− in the notebook, + in the check');
    return [bar, h('div', { class: 'planck-check-diff' }, diffBox({ text: '', lines }), legend)];
  }
}

function strip([shape, state]: readonly [Parameters<typeof icon>[0], string], text: HTMLElement, ...acts: HTMLElement[]): HTMLElement {
  const mark = h('span', { class: 'pk-mark', 'data-state': state }, icon(shape));
  return h('div', { class: 'pk-strip', role: 'group', 'aria-label': 'Verify' }, mark, text, h('span', { class: 'pk-acts' }, ...acts));
}

function progressText(progress: CheckProgress | null): string {
  if (progress === null || progress.number === 0) return 'Verify: copies files and starts a kernel';
  const seconds = progress.seconds < 2 ? '' : `, ${progress.seconds} s`;
  return `Verify: cell ${progress.number} of ${progress.total}${seconds}`;
}

function button(text: string, action: () => void, kind = ''): HTMLButtonElement {
  const element = h('button', { class: 'pk-btn', type: 'button', ...(kind !== '' && { 'data-kind': kind }) }, text);
  element.addEventListener('click', action);
  return element;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

function bytes(size: number): string {
  if (size < 1000) return counted(size, 'byte');
  return size < 1_000_000 ? `${Math.round(size / 1000)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}
