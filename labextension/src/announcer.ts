/** The live region of a run, the only one, for screen readers. */

import { h, setText } from './dom.ts';

const INTERVAL_MS = 5000;

/** Announces the newest status at most once in five seconds, and urgent texts immediately. */
export class Announcer {
  readonly element = h('div', { class: 'pk-sr', 'aria-live': 'polite', 'aria-atomic': 'true' });
  private last = -Infinity;
  private pending = '';
  private timer = 0;

  announce(text: string): void {
    if (text === this.pending) return;
    this.pending = text;
    if (this.timer === 0) {
      const wait = Math.max(0, this.last + INTERVAL_MS - performance.now());
      this.timer = window.setTimeout(() => this.announceNow(this.pending), wait);
    }
  }

  announceNow(text: string): void {
    this.dispose();
    this.last = performance.now();
    this.pending = text;
    setText(this.element, text);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
