/** A scrolling window on a text that grows: it follows the end until the user reads elsewhere. */

import { h } from './dom.ts';
import { placeAfterPaint } from './paint-queue.ts';
import type { Placed } from './paint-queue.ts';

/** The window follows the newest text while its end is this near, in pixels. */
const NEAR = 24;

export class FollowedWindow implements Placed {
  readonly element: HTMLElement;
  /** The button that returns to the end; below the window in the document. */
  readonly latest: HTMLElement;
  private following = true;
  /** The height of the content, in pixels. */
  private height = 0;
  /** The browser does not lay the content out, because it is not near what can be seen. */
  private skipped = false;
  private isLatestHidden = true;
  private readonly cleanups: (() => void)[] = [];

  constructor(content: HTMLElement, label: string) {
    const attributes = { class: 'pk-view', role: 'log', 'aria-live': 'off', 'aria-busy': 'true', tabindex: '0' };
    this.element = h('div', { ...attributes, 'aria-label': label }, content);
    const button = h('button', { class: 'pk-btn', type: 'button' }, 'Latest');
    this.latest = h('div', { class: 'pk-tail', hidden: '' }, button);
    button.addEventListener('click', () => this.set(true));
    this.watch();
  }

  /** Whether the window shows the end. */
  get isAtEnd(): boolean {
    return this.following;
  }

  /** Show the end after a change of the content, if the window follows it. */
  follow(): void {
    if (!this.skipped) this.set(this.following);
  }

  dispose(): void {
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.element.remove();
    this.latest.remove();
  }

  private set(on: boolean): void {
    this.following = on;
    placeAfterPaint(this);
  }

  measure(): void {
    if (this.following) this.height = this.element.scrollHeight;
    this.isLatestHidden = this.following || this.below() <= NEAR;
  }

  place(): void {
    if (this.following) this.element.scrollTop = this.height;
    if (this.latest.hidden !== this.isLatestHidden) this.latest.hidden = this.isLatestHidden;
  }

  /** The height of the content below the visible part, in pixels. */
  private below(): number {
    return this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight;
  }

  /** Stop following when the user scrolls up, selects text or moves the focus into the content. */
  private watch(): void {
    this.element.addEventListener('scroll', () => {
      const near = this.below() <= NEAR;
      if (near !== this.following) this.set(near);
    });
    this.element.addEventListener('focusin', (event) => {
      if (event.target !== this.element) this.set(false);
    });
    const selecting = (): void => {
      const selection = document.getSelection();
      if (selection !== null && !selection.isCollapsed && this.element.contains(selection.anchorNode)) this.set(false);
    };
    document.addEventListener('selectionchange', selecting);
    this.element.addEventListener('contentvisibilityautostatechange', (event) => {
      this.skipped = (event as ContentVisibilityAutoStateChangeEvent).skipped;
      this.follow();
    });
    // Lines wrap differently in another width, and formulas and pictures get their height later.
    const resized = new ResizeObserver(() => this.follow());
    for (const observed of [this.element, ...this.element.children]) resized.observe(observed);
    this.cleanups.push(() => resized.disconnect());
    this.cleanups.push(() => document.removeEventListener('selectionchange', selecting));
  }
}
