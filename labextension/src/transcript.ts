/** Items of a run as DOM: prose, thinking, tool calls, notes. Appends to what stands there, never rebuilds it. */

import { crowds } from './crowds.ts';
import { h, say, sentence } from './dom.ts';
import { elapsed, lastSentence } from './figures.ts';
import { icon } from './icons.ts';
import { CallView, CrowdView } from './lines.ts';
import { GrowingMarkdown } from './markdown.ts';
import type { Call, Cut, Item, Note, Prose, Said, Thinking } from './model.ts';

interface ItemView {
  readonly element: HTMLElement;
  /** The reader has opened or closed it. */
  readonly touched?: boolean;
  update(item: Item): void;
  /** Move the durations of what is going on to `now`, in the run's seconds. */
  tick?(now: number): void;
}

export class TranscriptView {
  readonly element = h('div', { class: 'pk-flow' });
  private items: readonly Item[] = [];
  private readonly views: ItemView[] = [];
  /** By the place of their first call. */
  private readonly crowds = new Map<number, CrowdView>();

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
    this.gather();
  }

  /** Make one line of many calls; those that somebody reads stay as they are. */
  private gather(): void {
    const found = crowds(this.items);
    for (const [from, crowd] of this.crowds) {
      if (found.some((other) => other.from === from && other.to - from === crowd.length)) continue;
      crowd.dissolve();
      this.crowds.delete(from);
    }
    for (const { from, to } of found) {
      const calls = this.items.slice(from, to) as Call[];
      const views = this.views.slice(from, to);
      const crowd = this.crowds.get(from);
      if (crowd !== undefined) crowd.update(calls);
      else if (!views.some((view) => view.touched || view.element.contains(document.activeElement))) {
        this.crowds.set(from, new CrowdView(calls, views.map((view) => view.element)));
      }
    }
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
    case 'said':
      return new SaidView(item);
    case 'cut':
      return new CutView(item);
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

class SaidView implements ItemView {
  readonly element = h('div', { class: 'pk-said', dir: 'auto' });

  constructor(item: Said) {
    this.update(item);
  }

  update(item: Said): void {
    this.element.replaceChildren(h('span', { class: 'pk-sr' }, 'You said: '), item.text);
  }
}

class CutView implements ItemView {
  readonly element = h('div', { class: 'pk-cut' });

  constructor(item: Cut) {
    this.update(item);
  }

  update(item: Cut): void {
    say(this.element, item.text);
  }
}

class NoteView implements ItemView {
  readonly element = h('section', { class: 'pk-note' });

  constructor(item: Note) {
    this.update(item);
  }

  update(item: Note): void {
    this.element.dataset['kind'] = item.state;
    const glyph = icon(({ bad: 'cross', ask: 'diamond', stop: 'square' } as const)[item.state]);
    const text = item.text === '' ? [] : [h('p', {}, ...sentence(item.text))];
    this.element.replaceChildren(glyph, h('h4', {}, ...sentence(item.title)), ...text);
  }
}

/** The lines are one stop of the Tab key; Up, Down, Home and End move between them, Left and Right close and open. */
function rove(flow: HTMLElement): void {
  const every = (): HTMLElement[] => [...flow.querySelectorAll<HTMLElement>('summary.pk-line')];
  const lines = (): HTMLElement[] => every().filter((line) => line.checkVisibility());
  new MutationObserver(() => {
    const all = lines();
    const stop = all.find((line) => line.getAttribute('tabindex') === '0') ?? all[0];
    for (const line of every()) line.tabIndex = line === stop ? 0 : -1;
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
