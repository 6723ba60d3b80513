/** The live view of a run: a bounded window on its tail and a dock, and the slim bar that both fold into. */

import type { Channel } from './channel.ts';
import { h, say } from './dom.ts';
import { count, dollars, duration, elapsed } from './figures.ts';
import { icon } from './icons.ts';
import type { Run } from './model.ts';
import { TranscriptView } from './transcript.ts';

export interface Summary {
  readonly outcome: 'done' | 'stopped' | 'failed';
  readonly seconds: number;
  readonly tokens: number;
  readonly cost: number | null;
  readonly model: string;
  readonly text: string;
}

const TICK_MS = 200;
const SPEAK_MS = 5000;
const COPIED_MS = 2000;
const OUTCOME = { done: 'Done', stopped: 'Stopped', failed: 'Failed' } as const;

export class RunView {
  private readonly channel: Channel;
  private readonly root: HTMLElement;
  private readonly transcript = new TranscriptView();
  private readonly window: HTMLElement;
  private readonly latest: HTMLElement;
  private readonly dock: Dock;
  private readonly voice = new Voice();
  private readonly cleanups: (() => void)[] = [];
  private frame = 0;
  private following = true;
  private folded = false;

  constructor(channel: Channel, agent: string, parent: HTMLElement) {
    this.channel = channel;
    this.dock = new Dock(() => channel.stop());
    this.window = h(
      'div',
      { class: 'pk-view', role: 'log', 'aria-live': 'off', 'aria-busy': 'true', 'aria-label': 'Agent run', tabindex: '0' },
      this.transcript.element,
    );
    const button = h('button', { class: 'pk-btn', type: 'button' }, 'Latest');
    this.latest = h('div', { class: 'pk-tail', hidden: '' }, button);
    button.addEventListener('click', () => this.follow(true));
    this.root = h(
      'div',
      { class: 'pk', role: 'group', 'aria-label': `Run of ${agent}`, 'data-lm-suppress-shortcuts': 'true' },
      this.window,
      this.latest,
      this.dock.element,
      this.voice.element,
    );
    parent.append(this.root);
    this.root.addEventListener('keydown', (event) => this.key(event));
    this.watchReader();
    this.cleanups.push(channel.subscribe(() => this.schedule()));
    const timer = window.setInterval(() => this.tick(), TICK_MS);
    this.cleanups.push(() => clearInterval(timer));
    this.paint();
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.voice.dispose();
    this.root.remove();
  }

  /** The run is over: the static output tells it from here on. */
  fold(summary: Summary): void {
    if (this.folded) return;
    this.folded = true;
    cancelAnimationFrame(this.frame);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    const watched = inSight(this.dock.element);
    for (const part of [this.window, this.latest, this.dock.element]) part.remove();
    this.root.prepend(bar(summary, this.voice));
    // The notebook may now stand scrolled past its end, with nothing to see.
    if (watched) this.root.scrollIntoView({ block: 'nearest' });
    const cost = summary.cost === null ? '' : `, ${dollars(summary.cost)}`;
    this.voice.sayNow(`${OUTCOME[summary.outcome]}, ${elapsed(summary.seconds)}${cost}. ${summary.text.slice(0, 200)}`);
  }

  /** The kernel is gone; should it speak again, the view goes on. */
  orphan(): void {
    if (this.folded) return;
    this.lost(true);
    this.dock.lost();
    this.voice.sayNow('Kernel stopped. The text so far is kept.');
  }

  private lost(is: boolean): void {
    this.root.classList.toggle('pk-lost', is);
    this.window.setAttribute('aria-busy', String(!is));
  }

  private schedule(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
    }
  }

  private paint(): void {
    const { run } = this.channel;
    this.lost(false);
    this.transcript.update(run.items);
    this.dock.update(run);
    this.voice.say(run.status);
    this.tick();
    if (this.following) this.window.scrollTop = this.window.scrollHeight;
  }

  private tick(): void {
    if (this.root.classList.contains('pk-lost')) return;
    const now = this.channel.now();
    this.transcript.tick(now);
    this.dock.tick(this.channel.run, now);
  }

  private follow(on: boolean): void {
    this.following = on;
    this.latest.hidden = on;
    if (on) this.window.scrollTop = this.window.scrollHeight;
  }

  /** Who scrolls up, selects or moves into the window reads; a reader's text does not move. */
  private watchReader(): void {
    this.window.addEventListener('scroll', () => {
      const below = this.window.scrollHeight - this.window.scrollTop - this.window.clientHeight;
      if (below > 24 !== !this.following) this.follow(below <= 24);
    });
    this.window.addEventListener('focusin', (event) => {
      if (event.target !== this.window) this.follow(false);
    });
    const selecting = (): void => {
      const selection = document.getSelection();
      if (selection !== null && !selection.isCollapsed && this.window.contains(selection.anchorNode)) this.follow(false);
    };
    document.addEventListener('selectionchange', selecting);
    this.cleanups.push(() => document.removeEventListener('selectionchange', selecting));
  }

  private key(event: KeyboardEvent): void {
    if (event.key === '.' && (event.ctrlKey || event.metaKey)) this.channel.stop();
    else if (event.key === 'Escape') this.root.closest<HTMLElement>('.jp-Cell, .jp-Notebook')?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function inSight(element: HTMLElement): boolean {
  const { top, bottom, height } = element.getBoundingClientRect();
  return height > 0 && bottom > 0 && top < window.innerHeight;
}

class Dock {
  readonly element: HTMLElement;
  private readonly mark = h('span', { class: 'pk-mark', 'data-state': 'run' }, icon('ring'));
  private readonly status = h('strong');
  private readonly step = h('span', { class: 'pk-sep pk-wide' });
  private readonly time = h('span', { class: 'pk-sep' });
  private readonly input = h('span', { class: 'pk-num pk-wide' });
  private readonly output = h('span', { class: 'pk-num pk-wide' });
  private readonly cost = h('b', { class: 'pk-num' });
  private readonly stop = h('button', { class: 'pk-btn pk-stop', type: 'button', title: 'Ctrl+.' }, icon('square'), 'Stop');

  constructor(stop: () => void) {
    this.stop.addEventListener('click', stop);
    this.element = h(
      'div',
      { class: 'pk-dock' },
      h(
        'div',
        { class: 'pk-status' },
        this.mark,
        h('span', { class: 'pk-now' }, this.status, this.step, this.time),
        h('span', { class: 'pk-figs' }, this.input, this.output, this.cost),
        this.stop,
      ),
    );
  }

  update(run: Run): void {
    say(this.status, run.status);
    say(this.step, run.step === 0 ? '' : `step ${run.step}`);
    say(this.input, run.counted ? `${count(run.input)} in` : '');
    say(this.output, run.counted ? `${count(run.output)} out` : '');
    say(this.cost, run.cost === null ? '' : dollars(run.cost));
  }

  tick(run: Run, now: number): void {
    say(this.time, run.since === null ? '' : elapsed((run.until ?? now) - run.since));
  }

  lost(): void {
    say(this.status, 'Kernel stopped. The text so far is kept');
  }
}

function bar(summary: Summary, voice: Voice): HTMLElement {
  const glyph = { done: 'check', stopped: 'square', failed: 'cross' } as const;
  // Tokens, cost and model stand in the first line of the transcript right below.
  const time = h('span', { class: 'pk-sep' }, duration(summary.seconds));
  const sum = h('span', { class: 'pk-sum' }, h('strong', {}, OUTCOME[summary.outcome]), time);
  const state = { done: 'done', stopped: 'stop', failed: 'bad' }[summary.outcome];
  const actions = h('span', { class: 'pk-acts' });
  if (summary.text !== '') actions.append(...copyButton(summary.text, voice));
  const mark = h('span', { class: 'pk-mark', 'data-state': state }, icon(glyph[summary.outcome]));
  return h('div', { class: 'pk-bar', role: 'group', 'aria-label': 'Run' }, mark, sum, actions);
}

function copyButton(text: string, voice: Voice): HTMLElement[] {
  const told = h('span', { class: 'pk-told' });
  const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Copy');
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(text).then(
      () => tell('Copied'),
      () => tell('The browser does not allow copying'),
    );
  });
  const tell = (outcome: string): void => {
    told.textContent = outcome;
    voice.sayNow(outcome);
    window.setTimeout(() => told.replaceChildren(), COPIED_MS);
  };
  return [told, button];
}

/** What a screen reader hears: the newest state, at most once in five seconds, and at once what cannot wait. */
class Voice {
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
