/** Items of a run as DOM: prose, thinking, tool calls, notes. Appends to what stands there, never rebuilds it. */

import { h, say } from './dom.ts';
import { duration, elapsed, lastSentence } from './figures.ts';
import { icon } from './icons.ts';
import type { Shape } from './icons.ts';
import { GrowingMarkdown } from './markdown.ts';
import { live } from './model.ts';
import type { Call, CallState, Item, Note, Prose, Thinking } from './model.ts';
import { keyOf, stringMembers } from './partial.ts';

interface ItemView {
  readonly element: HTMLElement;
  update(item: Item): void;
  /** Move the durations of what is going on to `now`, in the run's seconds. */
  tick?(now: number): void;
}

/** A finished call stays open for this long, so that one sees what it was. */
const FOLD_AFTER_MS = 600;

export class TranscriptView {
  readonly element = h('div', { class: 'pk-flow' });
  private items: readonly Item[] = [];
  private readonly views: ItemView[] = [];

  constructor() {
    rove(this.element);
  }

  update(items: readonly Item[]): void {
    items.forEach((item, at) => {
      if (item === this.items[at]) return;
      const view = this.views[at];
      if (view !== undefined && this.items[at]?.kind === item.kind) {
        view.update(item);
        return;
      }
      const fresh = viewOf(item);
      if (view === undefined) this.element.append(fresh.element);
      else view.element.replaceWith(fresh.element);
      this.views[at] = fresh;
    });
    for (const view of this.views.splice(items.length)) view.element.remove();
    this.items = items;
  }

  tick(now: number): void {
    for (const view of this.views) view.tick?.(now);
  }
}

function viewOf(item: Item): ItemView {
  switch (item.kind) {
    case 'prose':
      return new ProseView(item);
    case 'thinking':
      return new ThinkingView(item);
    case 'call':
      return new CallView(item);
    case 'note':
      return new NoteView(item);
  }
}

class ProseView implements ItemView {
  readonly element = h('div', { class: 'pk-prose' });
  private readonly markdown = new GrowingMarkdown(this.element);

  constructor(item: Prose) {
    this.update(item);
  }

  update(item: Prose): void {
    this.markdown.update(item.text, item.open);
  }
}

class ThinkingView implements ItemView {
  readonly element: HTMLDetailsElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly label = h('b');
  private readonly sentence = h('span');
  private readonly body = h('div', { class: 'pk-body' });
  private readonly text = document.createTextNode('');
  private item: Thinking;

  constructor(item: Thinking) {
    this.item = item;
    const what = h('span', { class: 'pk-what' }, this.label, this.sentence);
    const line = h('summary', { class: 'pk-line' }, this.mark, what, h('span'), icon('chevron', 'pk-chev'));
    this.body.append(this.text);
    this.element = h('details', { class: 'pk-think' }, line, this.body);
    this.update(item);
  }

  update(item: Thinking): void {
    this.item = item;
    const running = item.until === null;
    if (this.element.dataset['state'] !== (running ? 'run' : 'done')) {
      this.element.dataset['state'] = running ? 'run' : 'done';
      this.mark.classList.toggle('pk-dot', !running);
      this.mark.replaceChildren(...(running ? [icon('ring')] : []));
    }
    if (item.text.startsWith(this.text.data)) this.text.appendData(item.text.slice(this.text.length));
    else this.text.data = item.text;
    say(this.sentence, lastSentence(item.text));
    this.tick(item.until ?? item.since);
  }

  tick(now: number): void {
    const { since, until } = this.item;
    const seconds = (until ?? now) - since;
    say(this.label, `${until === null ? 'Thinking' : 'Thought'}${seconds < 1 ? '' : ` ${elapsed(seconds)}`}`);
  }
}

const GLYPH: Record<CallState, Shape> = {
  form: 'dots',
  wait: 'dots',
  run: 'ring',
  done: 'check',
  bad: 'cross',
  stop: 'square',
};
const WORD: Record<CallState, string> = {
  form: 'writing arguments',
  wait: 'waiting',
  run: 'running',
  done: '',
  bad: 'failed',
  stop: 'stopped',
};

class CallView implements ItemView {
  readonly element: HTMLDetailsElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly key = h('span');
  private readonly word = h('b');
  private readonly figure = h('span', { class: 'pk-num' });
  private readonly body = h('div', { class: 'pk-body' });
  private readonly formed = new FormingWell();
  private item: Call;
  /** Once the reader has opened or closed it, it is theirs. */
  private touched = false;
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
    this.item = item;
    if (before !== item.state) {
      this.element.dataset['state'] = item.state;
      this.mark.replaceChildren(icon(GLYPH[item.state]));
      this.word.className = item.state === 'done' ? 'pk-sr' : item.state === 'bad' || item.state === 'stop' ? '' : 'pk-wide';
      say(this.word, WORD[item.state] || 'done,');
    }
    if (item.state === 'form') this.form(item);
    else if (before !== item.state) this.fill(item);
    this.arrange(before, item);
    this.tick(item.until ?? item.since);
  }

  tick(now: number): void {
    const { state, since, until, count } = this.item;
    if (state === 'form') say(this.figure, `${count.toLocaleString('en')} chars`);
    else say(this.figure, state === 'wait' ? '' : duration((until ?? now) - since));
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
    if (item.result !== '') wells.push(well(wells.length > 0 ? 'result' : '', item.result, item.state === 'bad' ? 'bad' : ''));
    if (wells.length > 0 || !live(item)) this.body.replaceChildren(...wells);
  }

  /** What failed is open until the agent has gone on; what formed openly folds a moment after it is done. */
  private arrange(before: string | undefined, item: Call): void {
    if (this.touched || this.element.contains(document.activeElement)) return;
    if (item.state === 'bad' && before !== 'bad') {
      clearTimeout(this.folding);
      this.element.open = item.result !== '' && !item.past;
    } else if (item.past && item.state === 'bad') {
      this.element.open = false;
    } else if ((item.state === 'done' || item.state === 'stop') && this.element.open && this.folding === 0) {
      this.folding = window.setTimeout(() => {
        if (!this.touched) this.element.open = false;
      }, FOLD_AFTER_MS);
    }
  }
}

/** The longest argument while it is being written. */
class FormingWell {
  readonly element: HTMLElement;
  private readonly label = h('span', { class: 'pk-label' });
  private readonly text = document.createTextNode('');

  constructor() {
    this.element = h('pre', { class: 'pk-well', 'data-kind': 'code' }, this.label, this.text, h('span', { class: 'pk-caret' }));
  }

  show(name: string, text: string): void {
    say(this.label, name);
    if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.length));
    else this.text.data = text;
    this.element.scrollTop = this.element.scrollHeight;
  }
}

function well(label: string, text: string, kind: '' | 'code' | 'bad'): HTMLElement {
  const pre = h('pre', { class: 'pk-well', 'data-kind': kind, 'data-name': label || 'result' });
  if (label !== '') pre.append(h('span', { class: 'pk-label' }, label));
  pre.append(text);
  return pre;
}

/** A box that scrolls must be reachable by keyboard, and then it needs a name. */
function nameOverflowing(body: HTMLElement): void {
  for (const box of body.querySelectorAll<HTMLElement>('.pk-well')) {
    if (box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight) continue;
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', box.dataset['name'] ?? '');
  }
}

class NoteView implements ItemView {
  readonly element = h('section', { class: 'pk-note' });

  constructor(item: Note) {
    this.update(item);
  }

  update(item: Note): void {
    this.element.dataset['kind'] = item.state;
    const glyph = icon(item.state === 'bad' ? 'cross' : 'square');
    this.element.replaceChildren(glyph, h('h4', {}, item.title), h('p', {}, item.text));
  }
}

/** The lines are one stop of the Tab key; Up, Down, Home and End move between them, Left and Right close and open. */
function rove(flow: HTMLElement): void {
  const lines = (): HTMLElement[] => [...flow.querySelectorAll<HTMLElement>('summary.pk-line')];
  new MutationObserver(() => {
    const all = lines();
    if (all.some((line) => line.tabIndex === 0 && line.hasAttribute('tabindex'))) {
      for (const line of all) if (!line.hasAttribute('tabindex')) line.tabIndex = -1;
    } else {
      all.forEach((line, at) => {
        line.tabIndex = at === 0 ? 0 : -1;
      });
    }
  }).observe(flow, { childList: true });
  flow.addEventListener('keydown', (event) => {
    const all = lines();
    const at = all.indexOf(event.target as HTMLElement);
    if (at < 0) return;
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[event.key];
    const details = all[at]?.parentElement;
    if (to !== undefined) all[Math.min(Math.max(to, 0), all.length - 1)]?.focus();
    else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      if ((details as HTMLDetailsElement).open !== (event.key === 'ArrowRight')) all[at]?.click();
    } else return;
    event.preventDefault();
  });
  flow.addEventListener('focusin', (event) => {
    const line = event.target as HTMLElement;
    if (!line.matches('summary.pk-line')) return;
    for (const other of lines()) other.tabIndex = other === line ? 0 : -1;
  });
}
