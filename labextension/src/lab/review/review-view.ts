/** Shows a notebook's proposed changes: in a list above it, and each at its cell. */

import type { Cell } from '@jupyterlab/cells';
import { CodeEditor } from '@jupyterlab/codeeditor';
import type { IEditorServices } from '@jupyterlab/codeeditor';
import { Widget } from '@lumino/widgets';

import { Announcer } from '../../view/announcer.ts';
import { h, setText, withCode } from '../../view/dom.ts';
import { icon } from '../../view/icons.ts';
import { keyName, onKeys } from '../../view/keys.ts';
import { diffBox } from '../../view/text-boxes.ts';
import { CheckView } from './check-view.ts';
import { isApplied } from '../kernel/kernel-link.ts';
import { counts } from './line-diff.ts';
import type { NotebookCheck } from './notebook-check.ts';
import { acceptLabel, readyOf } from './notebook-review.ts';
import type { EditedText, NotebookReview, Shown } from './notebook-review.ts';
import type { ChangeSet } from '../kernel/protocol.generated.ts';

const KINDS = { insert: 'Insert', change: 'Change', move: 'Move', delete: 'Delete' } as const;
/** The review's largest share in a notebook's height. */
const MAX_SHARE = 0.45;
/** How long a sentence about the last action stays. */
const MESSAGE_MS = 15_000;
/** How many new entries the list gets at once, so that the page never stops. */
const SLICE = 40;
/** How many accepted sets are shown. */
const MAX_STRIPS = 3;
/** The editor's name. */
const TEXT = 'Your text for the cell';
const AGAIN = 'Changed since; please read it again.';

/** What every part of the view needs. */
interface Surroundings {
  readonly review: NotebookReview;
  readonly editors: IEditorServices;
  redraw(): void;
  step(by: number): void;
}

/** Accept a change as the review shows it. */
function accept({ set, change, problem }: Shown, { review }: Surroundings): void {
  if (problem === '') void review.accept(set, [change]);
}

/** One change with its reason, its diff or the editor for it, and its buttons. */
class ChangeBody {
  readonly element = h('div', { class: 'pk-body' });
  private editor: CodeEditor.IEditor | null = null;
  private shown: Shown;
  private drawn = '';
  private readonly all: Surroundings;
  private readonly isInList: boolean;

  constructor(shown: Shown, all: Surroundings, isInList = false) {
    this.shown = shown;
    this.all = all;
    this.isInList = isInList;
    onKeys(this.element, 'change', {
      accept: () => this.accept(),
      next: () => this.all.step(1),
      previous: () => this.all.step(-1),
      leave: () => this.shown.at !== null && this.all.review.panel.content.activate(),
    });
    this.update(shown);
  }

  update(shown: Shown): void {
    this.shown = shown;
    const { change, problem, isContested, diff } = shown;
    const edited = this.all.review.edited.get(change.id);
    const drawn = `${edited !== undefined} ${shown.key}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const hadFocus = this.element.contains(document.activeElement);
    if (edited === undefined) this.closeEditor();
    const parts: HTMLElement[] = [];
    if (change.why !== '') parts.push(h('p', { class: 'pk-why' }, ...withCode(change.why)));
    if (problem !== '') parts.push(h('p', { class: 'pk-why' }, h('b', {}, 'Outdated. '), problem));
    else if (isContested)
      parts.push(h('p', { class: 'pk-why' }, h('b', {}, 'Conflict. '), 'Another proposal changes the same cell: accept one of them.'));
    parts.push(edited !== undefined ? this.editorHost(edited) : diffBox({ text: '', lines: [...diff] }));
    parts.push(this.buttons());
    this.element.replaceChildren(...parts);
    if (hadFocus) this.focus();
  }

  focus(): void {
    if (this.editor !== null) this.editor.focus();
    else this.element.querySelector<HTMLElement>('button')?.focus({ preventScroll: true });
  }

  dispose(): void {
    this.closeEditor();
  }

  private buttons(): HTMLElement {
    const { change, problem, set } = this.shown;
    const row = h('div', { class: 'pk-row' });
    if (problem === '') {
      // In the list, the main button accepts all that are ready.
      row.append(button(set.run ? 'Accept and run' : 'Accept', () => this.accept(), this.isInList ? '' : 'main'));
      if (change.source !== null) {
        const isEdited = this.all.review.edited.has(change.id);
        row.append(button(isEdited ? 'Back to the proposal' : 'Edit', () => this.edit(!isEdited)));
      }
    } else row.append(button('Ask again', () => void this.all.review.refuse(set, [change], 'outdated', AGAIN)));
    row.append(button('Refuse', () => void this.all.review.refuse(set, [change], 'refused', '')));
    const { at } = this.shown;
    if (this.isInList && at !== null)
      row.append(h('span', { class: 'pk-push' }, button('Show cell', () => this.all.review.show(at), 'bare')));
    else if (problem === '') row.append(h('span', { class: 'pk-push pk-mute pk-wide' }, `${keyName('change', 'accept')} accepts`));
    return row;
  }

  private accept(): void {
    accept(this.shown, this.all);
  }

  private edit(on: boolean): void {
    const { change } = this.shown;
    if (on) {
      const { sharedModel } = new CodeEditor.Model();
      sharedModel.setSource(change.source ?? '');
      this.all.review.edited.set(change.id, sharedModel);
    } else this.all.review.edited.delete(change.id);
    this.all.redraw();
    this.focus();
  }

  /** A separate editor: the cell stays as it is. It stays when something else is drawn again, for whoever types. */
  private editorHost(sharedModel: EditedText): HTMLElement {
    if (this.editor !== null) return this.editor.host;
    const host = h('div', { class: 'pk-edit', role: 'group', 'aria-label': TEXT });
    const mimeType = this.shown.change.cell_type === 'code' ? this.all.review.panel.content.codeMimetype : 'text/x-ipythongfm';
    const model = new CodeEditor.Model({ mimeType, sharedModel });
    this.editor = this.all.editors.factoryService.newInlineEditor({ host, model });
    host.querySelector('[role=textbox]')?.setAttribute('aria-label', TEXT);
    return host;
  }

  private closeEditor(): void {
    this.editor?.dispose();
    this.editor = null;
  }
}

function button(text: string, action: () => void, kind = ''): HTMLButtonElement {
  const element = h('button', { class: 'pk-btn', type: 'button', ...(kind !== '' && { 'data-kind': kind }) }, text);
  element.addEventListener('click', action);
  return element;
}

const filled = new WeakMap<HTMLElement, string>();

/** Fill an element anew if it shows something else: the document changes between a button's press and its release. */
function fill(element: HTMLElement, shows: unknown, make: () => (Node | string)[]): void {
  const shown = JSON.stringify(shows);
  if (filled.get(element) === shown) return;
  filled.set(element, shown);
  element.replaceChildren(...make());
}

function mark(): HTMLElement {
  return h('span', { class: 'pk-mark', 'data-state': 'ask' }, icon('diamond'));
}

/** A change at its cell, below the input. */
class CellBox {
  readonly element: HTMLElement;
  private readonly body: ChangeBody;
  private readonly what = h('span', { class: 'pk-what' });
  private readonly meta = h('span', { class: 'pk-meta' });
  private readonly section: HTMLElement;
  private key = '';

  constructor(shown: Shown, all: Surroundings) {
    this.body = new ChangeBody(shown, all);
    this.section = h('section', { class: 'pk-ask', role: 'group' }, h('div', { class: 'pk-line' }, mark(), this.what, this.meta), this.body.element);
    this.element = h('div', { class: 'pk planck-at-cell', 'data-lm-suppress-shortcuts': 'true', 'data-change': shown.change.id }, this.section);
    // A click here neither selects a cell nor changes the notebook's mode.
    for (const event of ['mousedown', 'pointerdown', 'dblclick']) this.element.addEventListener(event, (each) => each.stopPropagation());
    this.update(shown);
  }

  update(shown: Shown): void {
    this.body.update(shown);
    if (shown.key === this.key) return;
    this.key = shown.key;
    const { set, change, place } = shown;
    const what = { insert: `a new cell ${place}`, change: 'a change to this cell', move: `to move this cell ${place.replace(/^.*, to/, 'to')}`, delete: 'to delete this cell' }[change.kind];
    const [bold, says] = set.title === '' ? [set.agent, ` proposes ${what}`] : [set.title, ` ${set.agent} proposes ${what}`];
    this.what.replaceChildren(h('b', {}, bold), says);
    setText(this.meta, counts(shown.diff));
    this.section.setAttribute('aria-label', `Proposal for ${place}`);
  }

  focus(): void {
    this.body.focus();
  }

  dispose(): void {
    this.body.dispose();
    this.element.remove();
  }
}

/** An entry in the list, which shows its change when it is opened. */
class ListEntry {
  readonly element = h('li');
  private readonly details: HTMLDetailsElement;
  private readonly all: Surroundings;
  private readonly number = h('span');
  private readonly place = h('b');
  private readonly text = h('span');
  private readonly state = h('span');
  private body: ChangeBody | null = null;
  private shown: Shown;

  constructor(shown: Shown, all: Surroundings) {
    this.shown = shown;
    this.all = all;
    const what = h('span', { class: 'pk-what' }, this.place, ' ', this.text);
    const kind = h('span', {}, KINDS[shown.change.kind]);
    const summary = h('summary', { class: 'pk-line' }, this.number, kind, what, this.state, icon('chevron', 'pk-chev'));
    this.details = h('details', {}, summary);
    this.details.addEventListener('toggle', () => this.fillBody());
    this.element.append(this.details);
    this.element.dataset['change'] = shown.change.id;
  }

  update(shown: Shown, number: number): void {
    this.shown = shown;
    this.body?.update(shown);
    const { change, place, problem, isContested, diff } = shown;
    setText(this.number, String(number));
    setText(this.place, place);
    setText(this.text, (change.source ?? change.before ?? '').trim().split('\n')[0] ?? '');
    setText(this.state, problem !== '' ? 'outdated' : isContested ? 'conflict' : counts(diff));
    this.state.className = `pk-meta ${isContested ? 'pk-bad' : ''}`;
  }

  open(): void {
    this.details.open = true;
    this.fillBody();
    this.element.scrollIntoView({ block: 'nearest' });
    this.body?.focus();
  }

  dispose(): void {
    this.body?.dispose();
    this.element.remove();
  }

  private fillBody(): void {
    if (this.body !== null || !this.details.open) return;
    this.body = new ChangeBody(this.shown, this.all, true);
    this.details.append(this.body.element);
  }
}

/** The bar above a notebook, with the list below it. */
export class ReviewBar extends Widget {
  private readonly all: Surroundings;
  private readonly review: NotebookReview;
  private readonly entries = new Map<string, ListEntry>();
  private readonly boxes = new Map<string, CellBox>();
  private readonly announcer = new Announcer();
  private readonly title_ = h('span', { class: 'pk-what' });
  private readonly steps = h('span', { class: 'pk-steps' });
  private readonly list = h('ol', { class: 'pk-ops' });
  private readonly foot = h('div', { class: 'pk-row' });
  private readonly message = h('p', { class: 'pk-why planck-said', hidden: '' });
  private readonly section = h('section', { class: 'pk-ask', role: 'group' });
  private readonly strips = h('div', { class: 'planck-strips' });
  private readonly root = h('div', { class: 'pk planck-review', 'data-lm-suppress-shortcuts': 'true' });
  private readonly check: NotebookCheck;
  private readonly checkView: CheckView;
  private readonly known = new Set<string>();
  private readonly closed = new Set<string>();
  private readonly sizes: ResizeObserver;
  private isListShown = false;
  private current = 0;
  private forgetting = 0;
  private filling = 0;
  private problem = '';

  constructor(review: NotebookReview, check: NotebookCheck, editors: IEditorServices) {
    super();
    this.review = review;
    this.check = check;
    this.checkView = new CheckView(review, check, () => this.draw());
    this.all = { review, editors, redraw: () => this.draw(), step: (by) => this.step(by) };
    const line = h('div', { class: 'pk-line' }, mark(), this.title_, this.steps);
    this.section.append(line, h('div', { class: 'pk-body' }, this.list, this.foot));
    this.root.append(this.section, this.strips, this.checkView.element, this.message, this.announcer.element);
    this.node.append(this.root);
    this.addClass('planck-review-host');
    onKeys(this.root, 'review', {
      next: () => this.step(1),
      previous: () => this.step(-1),
      leave: () => review.panel.content.activate(),
    });
    this.sizes = new ResizeObserver(() => this.fitToContent());
    this.sizes.observe(this.root);
    review.changed.connect(() => this.draw());
    review.revealed.connect(() => this.reveal());
    review.told.connect((_, text) => this.tell(text));
    review.said.connect((_, text) => {
      this.tell('');
      this.announcer.announceNow(text);
    });
    this.draw();
  }

  /** Show the list, and the change at which a person is. */
  reveal(): void {
    this.isListShown = true;
    this.draw();
    this.step(0);
  }

  /** Go to the change at which a person was, and from there to the next one or to the one before. */
  go(by: number): void {
    const parts = [this.root, ...[...this.boxes.values()].map(({ element }) => element)];
    this.step(parts.some((element) => element.contains(document.activeElement)) ? by : 0);
  }

  /** Accept the change at which a person is; one with a problem is shown. */
  accept(): void {
    const shown = this.review.open[this.current];
    if (shown === undefined) return;
    if (shown.problem === '') accept(shown, this.all);
    else {
      this.step(0);
      this.tell(shown.problem);
    }
  }

  /** Go to the next change, or to the one before. */
  step(by: number): void {
    const { open } = this.review;
    if (open.length === 0) return;
    this.current = (this.current + by + open.length) % open.length;
    const shown = open[this.current]!;
    const box = this.boxes.get(shown.change.id);
    // The list shows what a cell far away, which the page has not made yet, cannot show.
    if (box === undefined || !box.element.isConnected) this.isListShown = true;
    this.draw();
    if (this.isListShown) this.entries.get(shown.change.id)?.open();
    else {
      box?.element.scrollIntoView({ block: 'nearest' });
      box?.focus();
    }
  }

  override dispose(): void {
    for (const part of [...this.entries.values(), ...this.boxes.values()]) part.dispose();
    this.announcer.dispose();
    this.sizes.disconnect();
    clearTimeout(this.forgetting);
    clearTimeout(this.filling);
    super.dispose();
  }

  /** Take the content's height, up to less than half the notebook's: the layout knows only minima. */
  private fitToContent(): void {
    const most = (this.review.panel.node.clientHeight || window.innerHeight) * MAX_SHARE;
    this.node.style.minHeight = `${Math.min(Math.ceil(this.root.getBoundingClientRect().height) + 1, Math.ceil(most))}px`;
    this.parent?.fit();
  }

  private draw(): void {
    if (this.isDisposed) return;
    const { open, applied, link } = this.review;
    this.current = Math.min(this.current, Math.max(0, open.length - 1));
    this.section.hidden = open.length === 0;
    this.review.panel.toggleClass('planck-proposed', open.length > 0);
    if (link.problem !== this.problem) this.tell((this.problem = link.problem));
    this.drawHead(open);
    this.drawList(open);
    this.drawBoxes(open);
    this.drawStrips(applied);
    this.announce(open);
    if (open.length > 0 || this.strips.childElementCount > 0 || !this.checkView.element.hidden || this.message.textContent !== '') this.appear();
    else this.hide();
  }

  /** Become a part of the notebook with the first words: JupyterLab would lay each one out anew for an empty bar. */
  private appear(): void {
    if (this.parent === null) this.review.panel.contentHeader.addWidget(this);
    this.show();
  }

  private drawHead(open: readonly Shown[]): void {
    const agents = [...new Set(open.map(({ set }) => set.agent))].join(', ');
    const changes = open.length === 1 ? 'a change' : `${open.length} changes`;
    this.title_.replaceChildren(h('b', {}, agents), ` ${agents.includes(', ') ? 'propose' : 'proposes'} ${changes}`);
    this.section.setAttribute('aria-label', `${open.length === 1 ? '1 proposed change' : `${open.length} proposed changes`}`);
    const label = this.isListShown ? 'Hide list' : 'Review';
    const count = `${this.current + 1} of ${open.length}`;
    fill(this.steps, [count, label], () => [
      h('span', { class: 'pk-count' }, count),
      this.stepButton('Previous change', -1, 'pk-up'),
      this.stepButton('Next change', 1, 'pk-down'),
      button(label, () => {
        this.isListShown = !this.isListShown;
        this.draw();
      }),
    ]);
  }

  private stepButton(label: string, by: number, direction: string): HTMLElement {
    const element = button('', () => this.step(by), 'icon');
    element.append(icon('chevron', direction));
    element.setAttribute('aria-label', label);
    element.title = label;
    return element;
  }

  private drawList(open: readonly Shown[]): void {
    this.list.parentElement!.hidden = !this.isListShown;
    if (!this.isListShown) return;
    keep(this.entries, open);
    let made = 0;
    let next = this.list.firstElementChild;
    open.forEach((shown, at) => {
      let entry = this.entries.get(shown.change.id);
      if (entry === undefined) {
        if (made === SLICE && at !== this.current) return;
        made = Math.min(made + 1, SLICE);
        entry = new ListEntry(shown, this.all);
        this.entries.set(shown.change.id, entry);
      }
      entry.update(shown, at + 1);
      if (at === this.current) entry.element.setAttribute('aria-current', 'step');
      else entry.element.removeAttribute('aria-current');
      if (next !== entry.element) this.list.insertBefore(entry.element, next);
      next = entry.element.nextElementSibling;
    });
    clearTimeout(this.filling);
    if (this.entries.size < open.length) this.filling = window.setTimeout(() => this.drawList(this.review.open));
    this.drawFoot(open);
  }

  private drawFoot(open: readonly Shown[]): void {
    const ready = readyOf(open);
    const names = (shown: readonly Shown[]): string[] => shown.map(({ change }) => change.id);
    fill(this.foot, [names(ready), names(open)], () => {
      const accept = button(acceptLabel(ready), () => void this.review.decide(ready, true), 'main');
      accept.disabled = ready.length === 0;
      const refuse = button('Refuse all', () => void this.review.decide(open, false));
      return [accept, refuse, h('span', { class: 'pk-push pk-mute pk-wide' }, `${ready.some(({ set }) => set.run) ? '' : 'Cells are not run. '}Take back undoes a whole set.`)];
    });
  }

  private drawBoxes(open: readonly Shown[]): void {
    keep(this.boxes, open);
    const cells = new Map(this.review.panel.content.widgets.map((cell) => [cell.model.id, cell]));
    for (const shown of open) {
      const box = this.boxes.get(shown.change.id);
      const cell = shown.at === null ? undefined : cells.get(shown.at);
      box?.update(shown);
      if (cell === undefined) box?.element.remove();
      else if (box === undefined || !cell.node.contains(box.element)) void cell.ready.then(() => this.place(shown.change.id, cell));
    }
  }

  /** Put a change at its cell, which the page has made now. */
  private place(change: string, cell: Cell): void {
    const shown = this.review.open.find((each) => each.change.id === change && each.at === cell.model.id);
    const input = cell.isDisposed || this.isDisposed ? null : cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
    if (shown === undefined || input === null) return;
    const box = this.boxes.get(change) ?? new CellBox(shown, this.all);
    this.boxes.set(change, box);
    if (cell.node.contains(box.element)) return;
    let last: Element = input;
    while (last.nextElementSibling?.matches('.planck-at-cell')) last = last.nextElementSibling;
    last.after(box.element);
  }

  private drawStrips(applied: readonly ChangeSet[]): void {
    const { help } = this.review.link;
    const isAtCell = ({ run, changes }: ChangeSet): boolean => run && changes.some(({ cell }) => help.has(cell));
    const shown = applied.filter((set) => !this.closed.has(set.id) && !isAtCell(set)).slice(0, MAX_STRIPS);
    const accepted = shown.map(({ id, changes }) => [id, changes.map(({ state }) => state)]);
    fill(this.strips, accepted, () => shown.map((set) => this.strip(set)));
  }

  private strip(set: ChangeSet): HTMLElement {
    const count = set.changes.filter(isApplied).length;
    const text = `${count === 1 ? '1 change' : `${count} changes`} by `;
    const close = button('', () => {
      this.closed.add(set.id);
      this.draw();
    }, 'icon');
    close.setAttribute('aria-label', 'Close');
    close.append(icon('cross'));
    const verify = button('Verify', () => this.check.ask(set.id), 'bare');
    const acts = h('span', { class: 'pk-acts' }, verify, button('Take back', () => void this.review.takeBack(set), 'bare'), close);
    const words = h('span', {}, h('strong', {}, 'Accepted'), ` ${text}`, h('b', {}, set.agent));
    return h('div', { class: 'pk-strip', role: 'group', 'aria-label': `${text}${set.agent}` }, h('span', { class: 'pk-mark' }, icon('check')), words, acts);
  }

  private announce(open: readonly Shown[]): void {
    const fresh = open.filter(({ change }) => !this.known.has(change.id));
    for (const { change } of fresh) this.known.add(change.id);
    const [first] = fresh;
    if (first === undefined) return;
    const diff = counts(first.diff).replace('+', 'lines added: ').replace('−', 'removed: ');
    const sentence = fresh.length > 1 ? `${fresh.length} proposed changes.` : `Proposal for ${first.place}: ${diff || KINDS[first.change.kind]}`;
    this.announcer.announceNow(sentence);
  }

  private tell(text: string): void {
    this.message.hidden = text === '';
    setText(this.message, text);
    clearTimeout(this.forgetting);
    if (text === '') return;
    this.announcer.announceNow(text);
    this.appear();
    this.forgetting = window.setTimeout(() => {
      this.tell('');
      this.draw();
    }, MESSAGE_MS);
  }
}

/** Dispose superfluous parts. */
function keep(parts: Map<string, { dispose(): void }>, open: readonly Shown[]): void {
  const wanted = new Set(open.map(({ change }) => change.id));
  for (const [id, part] of parts) {
    if (wanted.has(id)) continue;
    part.dispose();
    parts.delete(id);
  }
}
