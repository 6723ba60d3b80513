/** Tool calls as lines that open: one call, and many of one step. */

import { namesOf, troubleOf } from './crowds.ts';
import { h, say } from './dom.ts';
import { duration } from './figures.ts';
import { icon } from './icons.ts';
import type { Shape } from './icons.ts';
import { live } from './model.ts';
import type { Call, CallState } from './model.ts';
import { keyOf, stringMembers } from './partial.ts';
import { FormingWell, nameOverflowing, OutputWell, tailWell, well } from './wells.ts';

/** A finished call stays open for this long, so that one sees what it was. */
const FOLD_AFTER_MS = 600;

/** A call that is over sooner does not open for its output, in seconds. */
const OPEN_AFTER = 0.3;

const GLYPH: Record<CallState, Shape> = {
  form: 'dots',
  wait: 'dots',
  ask: 'diamond',
  run: 'ring',
  done: 'check',
  bad: 'cross',
  deny: 'cross',
  stop: 'square',
};
const WORD: Record<CallState, string> = {
  form: 'writing arguments',
  wait: 'waiting',
  ask: 'waits for you',
  run: 'running',
  done: '',
  bad: 'failed',
  deny: 'denied',
  stop: 'stopped',
};

export class CallView {
  readonly element: HTMLDetailsElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly key = h('span');
  private readonly word = h('b');
  private readonly figure = h('span', { class: 'pk-num' });
  private readonly body = h('div', { class: 'pk-body' });
  private readonly formed = new FormingWell();
  private readonly output = new OutputWell();
  private item: Call;
  /** Once the reader has opened or closed it, it is theirs. */
  touched = false;
  private folding = 0;

  constructor(item: Call) {
    this.item = item;
    const what = h('span', { class: 'pk-what' }, h('b', {}, item.name), this.key);
    const meta = h('span', { class: 'pk-meta' }, this.word, ' ', this.figure);
    const line = h('summary', { class: 'pk-line' }, this.mark, what, meta, icon('chevron', 'pk-chev'));
    line.addEventListener('click', () => {
      this.touched = true;
    });
    this.element = h('details', { class: 'pk-tool' }, line, this.body);
    this.element.addEventListener('toggle', () => nameOverflowing(this.body));
    this.update(item);
  }

  update(item: Call): void {
    const before = this.element.dataset['state'];
    const answered = item.result !== this.item.result;
    this.item = item;
    if (before !== item.state) {
      this.element.dataset['state'] = item.state;
      // The approval block stands for it until somebody has decided.
      this.element.hidden = item.state === 'ask';
      this.mark.replaceChildren(icon(GLYPH[item.state]));
      this.nameState(item);
    }
    if (item.state === 'form') this.form(item);
    else if (before !== item.state || answered) this.fill(item);
    if (item.state === 'run' && item.output !== '') this.showOutput(item);
    this.arrange(before, item);
    this.tick(item.until ?? item.since);
  }

  tick(now: number): void {
    const { state, since, until, count, output } = this.item;
    if (state === 'form') say(this.figure, `${count.toLocaleString('en')} chars`);
    else if (state === 'wait' || state === 'ask' || state === 'deny') say(this.figure, '');
    else say(this.figure, duration((until ?? now) - since));
    if (state === 'run' && output !== '' && now - since >= OPEN_AFTER && !this.touched) this.element.open = true;
  }

  private nameState({ state, edited }: Call): void {
    const quiet = state === 'done' && !edited;
    const wide = state === 'form' || state === 'wait' || state === 'run';
    this.word.className = quiet ? 'pk-sr' : wide ? 'pk-wide' : '';
    say(this.word, state === 'done' ? (edited ? 'edited by you' : 'done,') : WORD[state]);
  }

  private form(item: Call): void {
    const members = stringMembers(item.forming);
    const key = keyOf(members);
    if (key !== '') say(this.key, key);
    const longest = members.reduce<(typeof members)[number] | null>(
      (best, member) => (best === null || member.text.length > best.text.length ? member : best),
      null,
    );
    if (longest === null || (longest.text.length < 60 && !longest.text.includes('\n'))) return;
    this.formed.show(longest.name, longest.text);
    if (this.formed.element.parentElement === null) this.body.replaceChildren(this.formed.element);
    if (!this.touched) this.element.open = true;
  }

  private fill(item: Call): void {
    if (item.key !== '') say(this.key, item.key);
    const wells: HTMLElement[] = [];
    for (const [name, text] of item.args) if (text !== item.key) wells.push(well(name, text, 'code'));
    if (item.result !== '') {
      const label = wells.length > 0 ? 'result' : '';
      const make = item.state === 'bad' || item.output !== '' ? tailWell : well;
      wells.push(make(label, item.result, item.state === 'bad' ? 'bad' : ''));
    } else if (!live(item)) {
      // It was stopped before it had a result: what one has seen of it stays.
      if (item.forming !== '' && this.formed.element.parentElement !== null) wells.push(this.formed.element);
      if (item.output !== '') wells.push(this.output.element);
    }
    if (wells.length > 0 || !live(item)) this.body.replaceChildren(...wells);
  }

  private showOutput(item: Call): void {
    this.output.show(item.output, item.earlier);
    if (this.output.element.parentElement === null) this.body.append(this.output.element);
  }

  /** What failed is open until the agent has gone on; what was open while it ran folds a moment after it is done. */
  private arrange(before: string | undefined, item: Call): void {
    if (this.touched || this.element.contains(document.activeElement)) return;
    if (item.state === 'bad' && before !== 'bad') {
      clearTimeout(this.folding);
      this.element.open = item.result !== '' && !item.past;
    } else if (item.past && item.state === 'bad') {
      this.element.open = false;
    } else if (!live(item) && item.state !== 'bad' && this.element.open && this.folding === 0) {
      this.folding = window.setTimeout(() => {
        if (!this.touched && !this.element.contains(document.activeElement)) this.element.open = false;
      }, FOLD_AFTER_MS);
    }
  }
}

/** One line that holds the lines of many calls of one step. */
export class CrowdView {
  readonly element: HTMLDetailsElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly size = h('b');
  private readonly names = h('span');
  private readonly trouble = h('b');
  private readonly figure = h('span', { class: 'pk-num' });
  private readonly flow = h('div', { class: 'pk-flow' });
  private calls: readonly Call[] = [];
  private touched = false;

  /** Takes the place of the lines. */
  constructor(calls: readonly Call[], lines: readonly HTMLElement[]) {
    const what = h('span', { class: 'pk-what' }, this.size, this.names);
    const meta = h('span', { class: 'pk-meta' }, this.trouble, ' ', this.figure);
    const line = h('summary', { class: 'pk-line' }, this.mark, what, meta, icon('chevron', 'pk-chev'));
    line.addEventListener('click', () => {
      this.touched = true;
    });
    this.element = h('details', { class: 'pk-tool' }, line, h('div', { class: 'pk-body' }, this.flow));
    lines[0]?.before(this.element);
    this.flow.append(...lines);
    this.update(calls);
  }

  get length(): number {
    return this.calls.length;
  }

  update(calls: readonly Call[]): void {
    if (calls.length === this.calls.length && calls.every((call, at) => call === this.calls[at])) return;
    this.calls = calls;
    const trouble = troubleOf(calls);
    const failed = calls.some((call) => call.state === 'bad');
    this.element.dataset['state'] = failed ? 'bad' : 'done';
    this.mark.replaceChildren(icon(failed ? 'cross' : 'check'));
    say(this.size, `${calls.length} calls`);
    say(this.names, namesOf(calls));
    say(this.trouble, trouble || 'done,');
    this.trouble.className = trouble === '' ? 'pk-sr' : '';
    const since = Math.min(...calls.map((call) => call.since));
    say(this.figure, duration(Math.max(...calls.map((call) => call.until ?? call.since)) - since));
    const read = this.touched || this.element.contains(document.activeElement);
    if (!read) this.element.open = failed && calls.some((call) => call.state === 'bad' && !call.past);
  }

  /** Give the lines their place back. */
  dissolve(): void {
    this.element.replaceWith(...this.flow.childNodes);
  }
}
