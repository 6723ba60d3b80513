/** Stored messages in the side panel: search results, and one session's transcript in pages. */

import { html, nothing } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

import type { Item } from '../../model/agent-state.ts';
import { h } from '../../view/dom.ts';
import type { SearchHit, SearchHits, StoredItem, StoredSession, TranscriptPage } from '../kernel/protocol.generated.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { viewModule } from '../styles.ts';
import { act } from './panel-parts.ts';

/** A person's pause in typing before a search. */
const PAUSE_MS = 300;
/** A silence from which on it is shown. */
const SLOW_MS = 400;

/** A question to the kernel, and whether its answer takes long. */
class Waiting {
  isOver = false;
  isSlow = false;
  private readonly timer: number;

  constructor(redraw: () => void) {
    this.timer = window.setTimeout(() => {
      this.isSlow = true;
      redraw();
    }, SLOW_MS);
  }

  end(): void {
    this.isOver = true;
    clearTimeout(this.timer);
  }

  says(isBusy: boolean, usual: string): string {
    return this.isSlow && isBusy ? 'The kernel is busy. The answer is shown when it comes.' : usual;
  }
}

export class TextSearch {
  isOn = false;
  private readonly redraw: () => void;
  private review: NotebookReview | null = null;
  private words = '';
  private pause = 0;
  private waiting: Waiting | null = null;
  private result: SearchHits | null = null;

  constructor(redraw: () => void) {
    this.redraw = redraw;
  }

  /** Search for other words, or in another notebook's folder. */
  set(review: NotebookReview, text: string): void {
    const words = text.trim();
    if (review === this.review && words === this.words) return;
    if (review !== this.review) this.result = null;
    this.review = review;
    this.words = words;
    this.waiting?.end();
    this.waiting = null;
    clearTimeout(this.pause);
    if (words === '') this.result = null;
    else this.pause = window.setTimeout(() => void this.ask(review, words), PAUSE_MS);
  }

  /** Forget a notebook's results. */
  forget(review: NotebookReview): void {
    if (review !== this.review) return;
    clearTimeout(this.pause);
    this.waiting?.end();
    this.waiting = this.review = this.result = null;
  }

  content(isBusy: boolean, open: (hit: SearchHit) => void): TemplateResult {
    const { result } = this;
    const hits = result?.hits ?? [];
    const row = (hit: SearchHit): TemplateResult => html`<li class="planck-hit">
      <button class="planck-name" type="button" @click=${() => open(hit)}>${hit.session_name}</button>
      <small>${hit.agent} · ${timeOf(hit.time)}</small>
      <p>${marked(hit.excerpt, result?.terms ?? []).map(([text, isHit]) => (isHit ? html`<mark>${text}</mark>` : text))}</p>
    </li>`;
    const says = this.says(isBusy);
    return html`<p class="pk-hint" role="status" ?hidden=${says === ''}>${says}</p>
      <ul class="planck-list">${repeat(hits, ({ session, id }) => `${session} ${id}`, row)}</ul>`;
  }

  private says(isBusy: boolean): string {
    if (this.words === '') return 'Type words; put a phrase in "double quotes".';
    if (this.waiting !== null) return this.waiting.says(isBusy, 'Searching…');
    if (this.result === null) return '';
    if (this.result.problem !== '') return this.result.problem;
    return this.result.hits.length === 0 ? 'No message has these words.' : '';
  }

  private async ask(review: NotebookReview, words: string): Promise<void> {
    const waiting = new Waiting(this.redraw);
    this.waiting = waiting;
    this.redraw();
    const result = await review.link.search(words);
    if (waiting.isOver) return;
    waiting.end();
    this.waiting = null;
    this.result = result;
    this.redraw();
  }
}

/** One session's transcript, which takes the place of the panel's lists. */
export class TranscriptPane {
  /** The open session; null while the pane is closed. */
  session: StoredSession | null = null;
  private readonly redraw: () => void;
  private readonly host = h('div', { class: 'planck-pages' });
  private review: NotebookReview | null = null;
  private waiting: Waiting | null = null;
  private older = 0;
  private newer = 0;
  private problem = '';

  constructor(redraw: () => void) {
    this.redraw = redraw;
  }

  isOf(review: NotebookReview): boolean {
    return this.session !== null && review === this.review;
  }

  /** Open a session at its end, or at a message. */
  open(review: NotebookReview, session: StoredSession, message = 0): void {
    this.close();
    this.review = review;
    this.session = session;
    void this.read(message === 0 ? 0 : message + 1, 0, message);
  }

  close(): void {
    this.waiting?.end();
    this.waiting = this.session = this.review = null;
    this.older = this.newer = 0;
    this.problem = '';
    this.host.replaceChildren();
  }

  content(isBusy: boolean, close: () => void, actions: TemplateResult): TemplateResult {
    const says = this.waiting !== null ? this.waiting.says(isBusy, 'Reading…') : this.problem;
    const isEmpty = says === '' && this.host.childElementCount === 0;
    return html`<section aria-label=${`Transcript of ${this.session?.name ?? ''}`}>
      <h2>${act('Back', close, 'bare')}<span class="planck-title">${this.session?.name}</span></h2>
      <div class="planck-acts">${actions}</div>
      ${this.older === 0 ? nothing : html`<div class="planck-acts">${act('Older messages', () => void this.read(this.older, 0))}</div>`}
      ${this.host}
      ${this.newer === 0 ? nothing : html`<div class="planck-acts">${act('Later messages', () => void this.read(0, this.newer))}</div>`}
      <p class="pk-hint" role="status">${isEmpty ? 'It has no messages.' : says}</p>
    </section>`;
  }

  private async read(before: number, after: number, wanted = 0): Promise<void> {
    const { review, session } = this;
    if (review === null || session === null || this.waiting !== null) return;
    const waiting = new Waiting(this.redraw);
    this.waiting = waiting;
    this.problem = '';
    this.redraw();
    const [page, view] = await Promise.all([review.link.transcript(session.id, before, after), viewModule()]);
    if (waiting.isOver) return;
    waiting.end();
    this.waiting = null;
    this.problem = page?.problem ?? 'The kernel has ended.';
    if (page !== null && page.problem === '') this.add(page, view, after !== 0, wanted);
    this.redraw();
    if (wanted !== 0) this.host.querySelector('[aria-current]')?.scrollIntoView({ block: 'center' });
    else if (before === 0 && after === 0) this.host.lastElementChild?.scrollIntoView({ block: 'end' });
  }

  private add(page: TranscriptPage, { TranscriptView }: Awaited<ReturnType<typeof viewModule>>, isLater: boolean, wanted: number): void {
    const parts = speeches(page.items, wanted).map((items) => {
      const [{ agent, time, message }] = items;
      const view = new TranscriptView();
      view.update(items.map(itemOf));
      const section = h('section', {}, h('h3', {}, `${agent} · ${timeOf(time)}`), view.element);
      if (message === wanted) section.setAttribute('aria-current', 'true');
      return section;
    });
    const isFirst = this.host.childElementCount === 0;
    if (isLater || isFirst) this.newer = page.newer;
    if (!isLater || isFirst) this.older = page.older;
    if (isLater) return this.host.append(...parts);
    // The text that a person reads stays where it is.
    const scroller = this.host.closest('.planck-panel');
    const height = scroller?.scrollHeight ?? 0;
    this.host.prepend(...parts);
    if (scroller !== null && !isFirst) scroller.scrollTop += scroller.scrollHeight - height;
  }
}

type Speech = [StoredItem, ...StoredItem[]];

/** Split items where another agent begins, and around a wanted message. */
function speeches(items: readonly StoredItem[], wanted: number): Speech[] {
  const parts: Speech[] = [];
  let last: StoredItem | null = null;
  for (const item of items) {
    const isWanted = (item.message === wanted) !== (last?.message === wanted);
    if (last === null || item.agent !== last.agent || isWanted) parts.push([item]);
    else parts.at(-1)!.push(item);
    last = item;
  }
  return parts;
}

function itemOf(item: StoredItem): Item {
  const { agent, message, text, name, time } = item;
  const part = { agent, message, step: message, text };
  switch (item.kind) {
    case 'prompt':
      return { kind: 'interjection', agent, sender: name, text };
    case 'prose':
      return { kind: 'prose', ...part, open: false };
    case 'thinking':
      return { kind: 'thinking', ...part, since: time, until: time };
    case 'cut':
      return { kind: 'cut', agent, text };
    case 'note':
      return { kind: 'note', agent, state: 'bad', title: name, text };
    case 'call': {
      const { state, key, arguments: args, edited, seconds } = item;
      const nothingLive = { json: '', characters: 0, output: '', earlierLines: 0, preview: null, images: [], past: true };
      const call = { id: '', name, state, key, args, edited, result: text, since: time, until: time + seconds };
      return { kind: 'call', agent, message, step: message, ...call, ...nothingLive };
    }
  }
}

/** A text in pieces, and whether each is one of the terms. */
function marked(text: string, terms: readonly string[]): (readonly [string, boolean])[] {
  if (terms.length === 0) return [[text, false]];
  const found = new RegExp(`(${terms.map((term) => term.replace(/[^\p{L}\p{N}\s]/gu, '\\$&')).join('|')})`, 'i');
  return text.split(found).map((piece, at) => [piece, at % 2 === 1] as const);
}

/** The time for today, else the day. */
export function timeOf(seconds: number): string {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }) : date.toLocaleDateString();
}
