/** The one place of a run that a screen reader listens to. */

import { h, say } from './dom.ts';

const SPEAK_MS = 5000;

/** What a screen reader hears: the newest state, at most once in five seconds, and at once what cannot wait. */
export class Voice {
  readonly element = h('div', { class: 'pk-sr', 'aria-live': 'polite', 'aria-atomic': 'true' });
  private last = -Infinity;
  private pending = '';
  private timer = 0;

  say(text: string): void {
    if (text === this.pending) return;
    this.pending = text;
    if (this.timer === 0) {
      const wait = Math.max(0, this.last + SPEAK_MS - performance.now());
      this.timer = window.setTimeout(() => this.sayNow(this.pending), wait);
    }
  }

  sayNow(text: string): void {
    this.dispose();
    this.last = performance.now();
    this.pending = text;
    say(this.element, text);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
