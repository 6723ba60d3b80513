/** The live region of a run, the only one, for screen readers. */

import { h, setText } from './dom.ts';

const INTERVAL_MS = 5000;

/** More sentences than this are counted, and only the newest is announced. */
const MAX_SENTENCES = 3;

/** Announces the newest status at most once in five seconds, and urgent texts immediately. */
export class Announcer {
  readonly element = h('div', { class: 'pk-sr', 'aria-live': 'polite', 'aria-atomic': 'true' });
  private last = -Infinity;
  /** What `timer` is for; empty if there is none. What was announced is in the document and kept nowhere else. */
  private pending = '';
  /** Sentences that are still to be announced. */
  private waiting: string[] = [];
  private timer = 0;

  announce(text: string): void {
    if (text === (this.timer === 0 ? this.element.textContent : this.pending)) return;
    this.pending = text;
    if (this.timer === 0) {
      const wait = Math.max(0, this.last + INTERVAL_MS - performance.now());
      this.timer = window.setTimeout(() => this.announceNow(this.pending), wait);
    }
  }

  /** Announce all of these sentences when there is time, together with those that wait already. */
  add(sentences: readonly string[]): void {
    if (sentences.length === 0) return;
    this.waiting.push(...sentences);
    const newest = this.waiting.at(-1) ?? '';
    const more = this.waiting.length > MAX_SENTENCES;
    this.announce(more ? `${this.waiting.length} messages between agents. ${newest}` : this.waiting.join(' '));
  }

  announceNow(text: string): void {
    const waiting = text === this.pending ? [] : this.waiting;
    this.waiting = [];
    this.dispose();
    this.last = performance.now();
    setText(this.element, text);
    this.add(waiting);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    this.pending = '';
  }
}
