/** Tool calls as lines that open: a single call, and a group of many. */

import { failureCounts, toolCounts } from '../model/call-groups.ts';
import { h, setText } from './dom.ts';
import { duration } from '../model/format.ts';
import { icon } from './icons.ts';
import type { Shape } from './icons.ts';
import { isLive } from '../model/agent-state.ts';
import type { Call, CallState } from '../model/agent-state.ts';
import { keyOf, stringMembers } from '../model/partial-json.ts';
import { imageBox, previewBoxes } from './previews.ts';
import { ArgumentBox, diffBox, DIFFED_ARGUMENTS, diffIn, OutputBox, tailBox, textBox, watchOverflow } from './text-boxes.ts';

/** A finished call stays open for this long, so that its end can be seen. */
const CLOSE_AFTER_MS = 600;

/** Output opens a call that has run for this long, in seconds. */
const OPEN_AFTER = 0.3;

/** An image's stand-in within a result's text. `blocks.py` has the same. */
const IMAGE_LINE = /^\[image(?: \d+x\d+)?(?: [\w.+-]+)?\]\n?/gm;

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
const LABEL: Record<CallState, string> = {
  form: 'writing arguments',
  wait: 'waiting',
  ask: 'waiting for you',
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
  private readonly label = h('b');
  /** How many lines were added and removed. */
  private readonly size = h('span', { class: 'pk-num' });
  private readonly time = h('span', { class: 'pk-num' });
  private readonly body = h('div', { class: 'pk-body' });
  private readonly argument = new ArgumentBox();
  private readonly output = new OutputBox();
  /** Its images, below the line; null without images. */
  figures: HTMLElement | null = null;
  private item: Call;
  /** The user has opened or closed it; from then on nothing else does. */
  touched = false;
  private closing = 0;

  constructor(item: Call) {
    this.item = item;
    const what = h('span', { class: 'pk-what' }, h('b', {}, item.name), this.key);
    const meta = h('span', { class: 'pk-meta' }, this.label, ' ', this.size, this.time);
    const line = h('summary', { class: 'pk-line' }, this.mark, what, meta, icon('chevron', 'pk-chev'));
    line.addEventListener('click', () => {
      this.touched = true;
    });
    this.element = h('details', { class: 'pk-tool' }, line, this.body);
    watchOverflow(this.body);
    this.update(item);
  }

  update(item: Call): void {
    const before = this.element.dataset['state'];
    const drawn = item.images !== this.item.images;
    const ended = item.result !== this.item.result || drawn;
    this.item = item;
    if (before !== item.state) {
      this.element.dataset['state'] = item.state;
      // The approval request is shown instead until it is decided.
      this.element.hidden = item.state === 'ask';
      this.mark.replaceChildren(icon(GLYPH[item.state]));
      this.showState(item);
    }
    if (item.state === 'form') this.showArguments(item);
    else if (before !== item.state || ended) this.fill(item);
    if (item.state === 'run' && item.output !== '') this.showOutput(item);
    this.openOrClose(before, item, drawn);
    this.tick(item.until ?? item.since);
  }

  tick(now: number): void {
    const { state, since, until, characters, output } = this.item;
    if (state === 'form') setText(this.time, `${characters.toLocaleString('en')} chars`);
    else if (state === 'wait' || state === 'ask' || state === 'deny') setText(this.time, '');
    else setText(this.time, duration((until ?? now) - since));
    if (state === 'run' && output !== '' && now - since >= OPEN_AFTER && !this.touched) this.element.open = true;
  }

  private showState({ state, edited }: Call): void {
    const quiet = state === 'done' && !edited;
    const wide = state === 'form' || state === 'wait' || state === 'run';
    this.label.className = quiet ? 'pk-sr' : wide ? 'pk-wide' : '';
    setText(this.label, state === 'done' ? (edited ? 'edited by you' : 'done,') : LABEL[state]);
  }

  private showArguments(item: Call): void {
    const members = stringMembers(item.json);
    const key = keyOf(members);
    if (key !== '') setText(this.key, key);
    const longest = members.reduce<(typeof members)[number] | null>(
      (best, member) => (best === null || member.text.length > best.text.length ? member : best),
      null,
    );
    if (longest === null || (longest.text.length < 60 && !longest.text.includes('\n'))) return;
    this.argument.show(longest.name, longest.text);
    if (this.argument.element.parentElement === null) this.body.replaceChildren(this.argument.element);
    if (!this.touched) this.element.open = true;
  }

  private fill(item: Call): void {
    if (item.key !== '') setText(this.key, item.key);
    if (!isLive(item)) this.showFigures(item);
    const boxes: HTMLElement[] = [];
    const result = item.images.length === 0 ? item.result : item.result.replace(IMAGE_LINE, '');
    const diff = item.state === 'done' ? diffIn(item.result) : null;
    for (const [name, text] of item.args) {
      if (text !== item.key && !(diff !== null && DIFFED_ARGUMENTS.has(name))) boxes.push(textBox(name, text, 'code'));
    }
    if (result !== '' && item.output.trim() !== '' && !result.includes(item.output.trim())) {
      const earlier = item.earlierLines > 0 ? '[earlier lines are not shown]\n' : '';
      boxes.push(textBox('printed', `${earlier}${item.output.trimEnd()}`, ''));
    }
    if (diff !== null) {
      const count = (mark: string): number => diff.lines.filter(([other]) => other === mark).length;
      setText(this.size, `+${count('+')} −${count('-')} `);
      if (item.name === 'write') {
        this.label.className = '';
        setText(this.label, 'overwrote the file');
      }
      boxes.push(diffBox(diff));
    } else if (result !== '') {
      const label = boxes.length > 0 ? 'result' : '';
      const make = item.state === 'bad' || item.output !== '' ? tailBox : textBox;
      boxes.push(make(label, result, item.state === 'bad' ? 'bad' : ''));
    } else if (!isLive(item)) {
      // It was stopped before it had a result: what was shown of it stays.
      if (item.json !== '' && this.argument.element.parentElement !== null) boxes.push(this.argument.element);
      if (item.output !== '') boxes.push(this.output.element);
    }
    if (item.preview !== null && !isLive(item)) boxes.push(...previewBoxes(item.preview, item.name));
    if (boxes.length > 0 || !isLive(item)) this.body.replaceChildren(...boxes);
  }

  private showFigures({ images, name }: Call): void {
    this.figures?.remove();
    this.figures = images.length === 0 ? null : h('div', { class: 'pk-figure' }, ...images.map((image) => imageBox(image, name)));
    this.placeFigures();
  }

  /** Put the figures below the line, as soon as it has a place. */
  placeFigures(): void {
    if (this.figures !== null && this.element.parentElement !== null) this.element.after(this.figures);
  }

  private showOutput(item: Call): void {
    this.output.show(item.output, item.earlierLines);
    if (this.output.element.parentElement === null) this.body.append(this.output.element);
  }

  /** A change, a table or a drawing is shown as in the saved transcript. */
  private get shows(): boolean {
    return this.item.preview !== null || diffIn(this.item.result) !== null;
  }

  /** A failed call is open until the next reply begins; one with nothing to look at closes a moment after its end. */
  private openOrClose(before: string | undefined, item: Call, drawn: boolean): void {
    if (this.touched || this.element.contains(document.activeElement)) return;
    if (item.state === 'bad' && before !== 'bad') {
      clearTimeout(this.closing);
      this.element.open = item.result !== '' && !item.past;
    } else if (item.past && item.state === 'bad') {
      this.element.open = false;
    } else if (item.state === 'done' && this.shows) {
      clearTimeout(this.closing);
      if (before !== 'done' || drawn) this.element.open = true;
    } else if (!isLive(item) && item.state !== 'bad' && this.element.open && this.closing === 0) {
      this.closing = window.setTimeout(() => {
        if (!this.touched && !this.element.contains(document.activeElement)) this.element.open = false;
      }, CLOSE_AFTER_MS);
    }
  }
}

/** One line that contains the lines of many calls of one reply. */
export class CallGroupView {
  readonly element: HTMLDetailsElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly size = h('b');
  private readonly tools = h('span');
  private readonly failures = h('b');
  private readonly time = h('span', { class: 'pk-num' });
  private readonly flow = h('div', { class: 'pk-flow' });
  private calls: readonly Call[] = [];
  private touched = false;

  /** Replaces the lines in the document and contains them. */
  constructor(calls: readonly Call[], lines: readonly HTMLElement[]) {
    const what = h('span', { class: 'pk-what' }, this.size, this.tools);
    const meta = h('span', { class: 'pk-meta' }, this.failures, ' ', this.time);
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
    const failures = failureCounts(calls);
    const failed = calls.some((call) => call.state === 'bad');
    this.element.dataset['state'] = failed ? 'bad' : 'done';
    this.mark.replaceChildren(icon(failed ? 'cross' : 'check'));
    setText(this.size, `${calls.length} calls`);
    setText(this.tools, toolCounts(calls));
    setText(this.failures, failures || 'done,');
    this.failures.className = failures === '' ? 'pk-sr' : '';
    const since = Math.min(...calls.map((call) => call.since));
    setText(this.time, duration(Math.max(...calls.map((call) => call.until ?? call.since)) - since));
    const inUse = this.touched || this.element.contains(document.activeElement);
    if (!inUse) this.element.open = failed && calls.some((call) => call.state === 'bad' && !call.past);
  }

  /** Put the lines back into the place of the group. */
  ungroup(): void {
    this.element.replaceWith(...this.flow.childNodes);
  }
}
