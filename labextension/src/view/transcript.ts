/** The items of a run as DOM: prose, thinking, tool calls, notes. Existing elements are updated, not rebuilt. */

import { callGroups } from '../model/call-groups.ts';
import { h, setText, withCode } from './dom.ts';
import { elapsed, lastSentence } from '../model/format.ts';
import { icon } from './icons.ts';
import { moveFocus, onKeys } from './keys.ts';
import { GrowingMarkdown } from '../text/markdown.ts';
import type { Call, Cut, Interjection, Item, Note, Prose, Thinking } from '../model/agent-state.ts';
import { CallGroupView, CallView } from './tool-calls.ts';

interface ItemView {
  readonly element: HTMLElement;
  /** The user has opened or closed it. */
  readonly touched?: boolean;
  /** What stands below the element; null for nothing. */
  readonly figures?: HTMLElement | null;
  placeFigures?(): void;
  update(item: Item): void;
  /** Show durations up to `now`, the kernel's time in seconds since the epoch. */
  tick?(now: number): void;
}

export class TranscriptView {
  readonly element = h('div', { class: 'pk-flow' });
  private items: readonly Item[] = [];
  private readonly views: ItemView[] = [];
  /** By the position of their first call. */
  private readonly groups = new Map<number, CallGroupView>();

  constructor() {
    addLineNavigation(this.element);
  }

  /** Show the items. Returns whether anything has changed. */
  update(items: readonly Item[]): boolean {
    if (items === this.items) return false;
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
      view?.figures?.remove();
      fresh.placeFigures?.();
      this.views[at] = fresh;
    });
    for (const view of this.views.splice(items.length)) for (const element of elementsOf(view)) element.remove();
    this.items = items;
    this.groupCalls();
    return true;
  }

  /** Group many calls into one line, except those that the user is reading. */
  private groupCalls(): void {
    const found = callGroups(this.items);
    for (const [from, group] of this.groups) {
      if (found.some((other) => other.from === from && other.to - from === group.length)) continue;
      group.ungroup();
      this.groups.delete(from);
    }
    for (const { from, to } of found) {
      const calls = this.items.slice(from, to) as Call[];
      const views = this.views.slice(from, to);
      const group = this.groups.get(from);
      if (group !== undefined) group.update(calls);
      else if (!views.some((view) => view.touched || view.element.contains(document.activeElement))) {
        this.groups.set(from, new CallGroupView(calls, views.flatMap(elementsOf)));
      }
    }
  }

  tick(now: number): void {
    for (const view of this.views) view.tick?.(now);
  }
}

function elementsOf({ element, figures }: ItemView): HTMLElement[] {
  return figures == null ? [element] : [element, figures];
}

function viewOf(item: Item): ItemView {
  switch (item.kind) {
    case 'prose':
      return new ProseView(item);
    case 'thinking':
      return new ThinkingView(item);
    case 'call':
      return new CallView(item);
    case 'interjection':
      return new InterjectionView(item);
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
  private readonly preview = h('span');
  private readonly body = h('div', { class: 'pk-body' });
  private readonly text = document.createTextNode('');
  private item: Thinking;

  constructor(item: Thinking) {
    this.item = item;
    const what = h('span', { class: 'pk-what' }, this.label, this.preview);
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
    setText(this.preview, lastSentence(item.text));
    this.tick(item.until ?? item.since);
  }

  tick(now: number): void {
    const { since, until } = this.item;
    const seconds = (until ?? now) - since;
    setText(this.label, `${until === null ? 'Thinking' : 'Thought'}${seconds < 1 ? '' : ` ${elapsed(seconds)}`}`);
  }
}

class InterjectionView implements ItemView {
  readonly element = h('div', { class: 'pk-said', dir: 'auto' });

  constructor(item: Interjection) {
    this.update(item);
  }

  update(item: Interjection): void {
    const { sender, text } = item;
    const by = sender === '' ? h('b', {}, 'You: ') : h('b', {}, `${sender}: `);
    this.element.replaceChildren(by, text);
  }
}

class CutView implements ItemView {
  readonly element = h('div', { class: 'pk-cut' });

  constructor(item: Cut) {
    this.update(item);
  }

  update(item: Cut): void {
    setText(this.element, item.text);
  }
}

class NoteView implements ItemView {
  readonly element = h('section', { class: 'pk-note' });

  constructor(item: Note) {
    this.update(item);
  }

  update(item: Note): void {
    this.element.dataset['kind'] = item.state;
    const mark = icon(({ bad: 'cross', ask: 'diamond', stop: 'square' } as const)[item.state]);
    const text = item.text === '' ? [] : [h('p', {}, ...withCode(item.text))];
    this.element.replaceChildren(mark, h('h4', {}, ...withCode(item.title)), ...text);
  }
}

/** Make the lines one tab stop: Up, Down, Home and End move between them, Left and Right close and open. */
function addLineNavigation(flow: HTMLElement): void {
  const allLines = (): HTMLElement[] => [...flow.querySelectorAll<HTMLElement>('summary.pk-line')];
  const visibleLines = (): HTMLElement[] => allLines().filter((line) => line.checkVisibility());
  new MutationObserver(() => {
    const all = visibleLines();
    const tabStop = all.find((line) => line.getAttribute('tabindex') === '0') ?? all[0];
    for (const line of allLines()) line.tabIndex = line === tabStop ? 0 : -1;
  }).observe(flow, { childList: true });
  const isLine = ({ target }: Event): boolean => visibleLines().includes(target as HTMLElement);
  const set = (event: Event, isOpen: boolean): boolean => {
    if (!isLine(event)) return false;
    const line = event.target as HTMLElement;
    if ((line.parentElement as HTMLDetailsElement).open !== isOpen) line.click();
    return true;
  };
  onKeys(flow, 'lines', {
    move: (event) => isLine(event) && moveFocus(visibleLines(), event),
    open: (event) => set(event, true),
    close: (event) => set(event, false),
  });
  flow.addEventListener('focusin', (event) => {
    const line = event.target as HTMLElement;
    if (!line.matches('summary.pk-line')) return;
    for (const other of visibleLines()) other.tabIndex = other === line ? 0 : -1;
  });
}
