/** The live view of a run: a bounded window on its tail, what waits for consent, a dock; and the bar they fold into. */

import { wants } from './asking.ts';
import { AsksView } from './asks.ts';
import { bar, OUTCOME } from './bar.ts';
import type { Summary } from './bar.ts';
import type { Channel, Outgoing, Refusal } from './channel.ts';
import { Dock, unsent } from './dock.ts';
import { h } from './dom.ts';
import { dollars, elapsed } from './figures.ts';
import { statusOf } from './model.ts';
import type { Ask, Run } from './model.ts';
import { TranscriptView } from './transcript.ts';
import { Voice } from './voice.ts';

const TICK_MS = 200;

/** Who is so near to the end, in pixels, reads the newest text. */
const NEAR = 24;

export class RunView {
  private readonly channel: Channel;
  private readonly root: HTMLElement;
  private readonly transcript = new TranscriptView();
  private readonly window: HTMLElement;
  private readonly latest: HTMLElement;
  private readonly asks: AsksView;
  private readonly dock: Dock;
  private readonly voice = new Voice();
  private readonly cleanups: (() => void)[] = [];
  private frame = 0;
  private following = true;
  private folded = false;
  /** The newest failure has been told. */
  private failed = false;

  constructor(channel: Channel, agent: string, parent: HTMLElement) {
    this.channel = channel;
    this.asks = new AsksView((decision) => this.send({ type: 'decide', ...decision }));
    this.dock = new Dock((wish) => this.send(wish));
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
      this.asks.element,
      this.dock.element,
      this.voice.element,
    );
    parent.append(this.root);
    this.root.addEventListener('keydown', (event) => this.key(event));
    this.watchReader();
    this.cleanups.push(channel.subscribe(() => this.schedule()));
    this.cleanups.push(channel.onRefusal((refusal) => this.refuse(refusal)));
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
    const inside = this.root.contains(document.activeElement);
    for (const part of [this.window, this.latest, this.asks.element, this.dock.element]) part.remove();
    this.root.classList.add('pk-folded');
    this.root.prepend(bar(summary, this.voice));
    this.root.append(...unsent([this.dock.draft]));
    if (inside) this.leave();
    // The notebook may now stand scrolled past its end, with nothing to see.
    if (watched) this.root.scrollIntoView({ block: 'nearest' });
    const cost = summary.cost === null ? '' : `, ${dollars(summary.cost)}`;
    this.voice.sayNow(`${OUTCOME[summary.outcome]}, ${elapsed(summary.seconds)}${cost}. ${summary.text.slice(0, 200)}`);
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
    const { run, ended } = this.channel;
    this.root.classList.toggle('pk-lost', ended);
    this.window.setAttribute('aria-busy', String(!ended));
    this.transcript.update(run.items);
    const focused = this.asks.element.contains(document.activeElement);
    const fresh = this.asks.update(run.asks);
    // Where the block that had the focus went, keys go on to the text of the run.
    if (focused && !this.asks.element.contains(document.activeElement)) this.window.focus({ preventScroll: true });
    this.dock.update(run, ended);
    this.tell(run, fresh);
    this.tick();
    this.follow(this.following);
  }

  /** Consent and failures are told at once, everything else when there is time. */
  private tell(run: Run, asks: readonly Ask[]): void {
    const last = run.items.at(-1);
    const failed = last?.kind === 'note' && last.state === 'bad';
    if (asks.length > 0) this.voice.sayNow(asks.map(announcement).join(' '));
    else if (failed && !this.failed) this.voice.sayNow(last.title);
    else if (this.channel.ended) this.voice.sayNow(run.status);
    else this.voice.say(statusOf(run));
    this.failed = failed;
  }

  private send(wish: Outgoing): void {
    this.dock.refuse('');
    this.channel.send(wish);
  }

  private refuse({ reason, text }: Refusal): void {
    this.asks.release();
    this.dock.refuse(reason, text);
    this.voice.sayNow(reason);
  }

  private tick(): void {
    if (this.channel.ended) return;
    const now = this.channel.now();
    this.transcript.tick(now);
    this.asks.tick(now);
    this.dock.tick(this.channel.run, now);
  }

  private follow(on: boolean): void {
    this.following = on;
    if (on) this.window.scrollTop = this.window.scrollHeight;
    this.latest.hidden = on || this.below() <= NEAR;
  }

  /** How much of the run stands below what is in sight, in pixels. */
  private below(): number {
    return this.window.scrollHeight - this.window.scrollTop - this.window.clientHeight;
  }

  /** Who scrolls up, selects or moves into the window reads; a reader's text does not move. */
  private watchReader(): void {
    this.window.addEventListener('scroll', () => {
      const near = this.below() <= NEAR;
      if (near !== this.following) this.follow(near);
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

  /** The keys go back to the cell. */
  private leave(): void {
    this.root.closest<HTMLElement>('.jp-Cell, .jp-Notebook')?.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    if (event.key === '.' && (event.ctrlKey || event.metaKey)) this.send({ type: 'stop' });
    else if (event.key === 'Escape') this.leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function inSight(element: HTMLElement): boolean {
  const { top, bottom, height } = element.getBoundingClientRect();
  return height > 0 && bottom > 0 && top < window.innerHeight;
}

function announcement(ask: Ask): string {
  const { verb, target } = wants(ask);
  return `Approval needed: ${ask.name} ${verb} ${target}`.trimEnd() + '.';
}
