/** The side panel: what waits for a person, who works, sessions and usage. Texts become text nodes only. */

import { Widget } from '@lumino/widgets';
import { html, nothing, render } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

import { count, dollars } from '../../model/format.ts';
import type { Shape } from '../../view/icons.ts';
import type { ApprovalsView } from '../../view/approvals-view.ts';
import { keyHandler, moveFocus } from '../../view/keys.ts';
import { AskBox } from './ask-box.ts';
import { BETWEEN_CELLS } from '../kernel/kernel-link.ts';
import { doing, KernelCopy, OLD_SECONDS, windowOf } from '../kernel/kernel-copy.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { act, coded, glyph } from './panel-parts.ts';
import { ProposalList } from './proposal-list.ts';
import type { AgentEntry, SearchHit, StoredSession } from '../kernel/protocol.generated.ts';
import type { Reviews } from '../review/reviews.ts';
import { TextSearch, timeOf, TranscriptPane } from './session-texts.ts';
import { SettingsForm } from './settings-form.ts';
import { addStyles, viewModule } from '../styles.ts';
import { TrustBox } from './trust-box.ts';

const TICK_MS = 500;
const WIDTH = '300px';
const ROW = 44;
/** What the actions add to a row's height. */
const ACTIONS = 32;
const WINDOW = 352;
/** How many sessions are shown before all are asked for. */
const RECENT = 3;

type List = 'agents' | 'sessions';

/** What is shown for a notebook's kernel. */
interface Shown {
  readonly copy: KernelCopy;
  approvals: ApprovalsView | null;
}

export class Panel extends Widget {
  private readonly reviews: Reviews;
  private readonly activateNotebook: (review: NotebookReview) => void;
  private readonly newNotebook: () => void;
  private readonly shown = new Map<NotebookReview, Shown>();
  private readonly root = document.createElement('div');
  private readonly box: AskBox;
  private readonly trust = new TrustBox(() => this.tick());
  private readonly settings = new SettingsForm(() => this.draw());
  private readonly texts = new TextSearch(() => this.draw());
  private readonly proposals: ProposalList;
  private readonly transcript = new TranscriptPane(() => this.draw());
  private timer = 0;
  private isOpen = false;
  private find = '';
  private opened = '';
  /** How far the long lists are scrolled. */
  private readonly tops: Record<List, number> = { agents: 0, sessions: 0 };
  /** The long lists that stand at these places already. */
  private readonly placed = new WeakSet<HTMLElement>();
  private frame = 0;
  private front: NotebookReview | null = null;
  /** Whether a person has opened the panel, and the prompt box is still to come. */
  private wantsFocus = false;
  /** What a person has to know about the last action. */
  private said = '';

  constructor(reviews: Reviews, activateNotebook: (review: NotebookReview) => void, newNotebook: () => void) {
    super();
    this.id = 'planck-panel';
    this.title.caption = 'Agents';
    this.addClass('planck-panel');
    this.node.style.minWidth = WIDTH; // here, because the layout looks at it before the style sheet is there
    this.reviews = reviews;
    this.activateNotebook = activateNotebook;
    this.newNotebook = newNotebook;
    this.box = new AskBox(reviews, (review) => this.shown.get(review)?.copy, () => this.draw());
    this.proposals = new ProposalList(this.root, reviews, activateNotebook, (says) => {
      this.said = says;
      this.draw();
    });
    this.root.className = 'pk pk-panel';
    this.root.dataset['lmSuppressShortcuts'] = 'true';
    this.root.setAttribute('role', 'region');
    this.root.setAttribute('aria-label', 'Agents');
    this.node.append(this.root);
    reviews.changed.connect(() => this.follow());
    document.addEventListener('visibilitychange', this);
    this.follow();
  }

  handleEvent(): void {
    this.tick();
  }

  override dispose(): void {
    document.removeEventListener('visibilitychange', this);
    clearInterval(this.timer);
    super.dispose();
  }

  protected override onAfterShow(): void {
    addStyles();
    this.follow();
    clearInterval(this.timer);
    this.timer = window.setInterval(() => this.tick(), TICK_MS);
    this.tick();
  }

  protected override onAfterAttach(): void {
    if (this.isVisible) this.onAfterShow();
  }

  protected override onAfterHide(): void {
    this.wantsFocus = false;
  }

  protected override onBeforeDetach(): void {
    clearInterval(this.timer);
  }

  protected override onActivateRequest(): void {
    this.draw();
    const box = this.root.querySelector<HTMLElement>('textarea');
    this.wantsFocus = box === null;
    (box ?? this.root.querySelector<HTMLElement>('button'))?.focus();
  }

  /** Ask about the active cell. */
  askAboutCell(): void {
    this.box.addCell();
    this.draw();
  }

  /** Follow the page's notebooks. */
  private follow(): void {
    for (const review of this.shown.keys()) {
      if (this.reviews.all.has(review)) continue;
      this.shown.delete(review);
      this.trust.forget(review);
      this.settings.forget(review);
      this.forgetTexts(review);
    }
    for (const review of this.reviews.all) {
      if (this.shown.has(review)) continue;
      const shown: Shown = { copy: new KernelCopy((stored) => review.link.overview(stored)), approvals: null };
      this.shown.set(review, shown);
      review.changed.connect(() => this.drawSoon());
      review.link.changed.connect(() => {
        if (review.link.state !== 'connected') {
          shown.copy.clear();
          this.trust.forget(review);
          this.settings.forget(review);
          this.forgetTexts(review);
        }
        this.drawSoon();
      });
      review.link.trusted.connect((_, problem) => {
        this.said = problem;
        this.trust.settle(review, shown.copy, problem);
        this.draw();
      });
      review.link.approved.connect((_, problem) => {
        this.said = problem;
        if (problem !== '') shown.approvals?.release();
        this.draw();
      });
    }
    this.drawSoon();
  }

  private forgetTexts(review: NotebookReview): void {
    this.texts.forget(review);
    if (this.transcript.isOf(review)) this.transcript.close();
  }

  /** Ask the kernels, at most once in a while, and only if a person can see the panel or a prompt waits. */
  private tick(): void {
    const isSeen = this.isVisible && !document.hidden;
    const { awaited } = this.box;
    if (!this.isVisible && awaited.size === 0) clearInterval(this.timer);
    for (const [review, { copy }] of this.shown) {
      this.trust.next(review, copy);
      if (!review.link.isConnected || !(isSeen || awaited.has(review))) continue;
      void copy.ask(performance.now()).then((isNew) => {
        if (!isNew) return;
        this.box.next();
        this.draw();
      });
    }
    this.box.next();
    this.draw();
  }

  /** Draw in the next frame, once: when a notebook opens or comes to the front, several things change. */
  private drawSoon(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.reviews.current !== this.front) {
        this.front = this.reviews.current;
        for (const list of this.lists()) if (this.tops[list.dataset['list'] as List] > 0) list.scrollTop = 0;
        this.tops.agents = this.tops.sessions = 0;
      }
      this.draw();
    });
  }

  private lists(): NodeListOf<HTMLElement> {
    return this.root.querySelectorAll<HTMLElement>('.planck-window');
  }

  private draw(): void {
    if (!this.isVisible || this.isDisposed) return;
    render(this.content(), this.root);
    for (const list of this.lists()) {
      const top = this.tops[list.dataset['list'] as List];
      if (!this.placed.has(list) && top > 0) list.scrollTop = top; // which has the page laid out at once
      this.placed.add(list);
    }
    this.box.attach();
    const box = this.wantsFocus ? this.root.querySelector<HTMLElement>('textarea') : null;
    if (box === null) return;
    const { activeElement } = document;
    if (activeElement === null || activeElement === document.body || this.node.contains(activeElement)) box.focus();
    this.wantsFocus = false;
  }

  private content(): TemplateResult {
    const { current } = this.reviews;
    const shown = current === null ? undefined : this.shown.get(current);
    const copy = shown?.copy ?? null;
    return html`
      ${this.notice(current, copy)}
      ${this.said === '' ? nothing : html`<p class="pk-hint" role="alert">${this.said}</p>`}
      <div>${this.waiting(current)}</div>
      ${this.proposals.content(current)}
      ${this.body(current, copy)}
    `;
  }

  private body(current: NotebookReview | null, copy: KernelCopy | null): TemplateResult | typeof nothing {
    if (current === null || !copy?.overview) return this.work(current);
    return this.transcript.isOf(current) ? this.stored(current, copy) : this.parts(current, copy);
  }

  private parts(current: NotebookReview, copy: KernelCopy): TemplateResult {
    return html`
      ${this.trust.content(current, copy)}
      ${this.work(current)}
      ${copy.overview?.agents.length === 0 ? FIRST : nothing}
      ${this.box.content(current, copy)}
      ${this.sessions(current, copy)}
      ${copy.overview?.stored ? usage(copy) : nothing}
      ${this.settings.content(current)}
    `;
  }

  /** The open session's transcript. */
  private stored(current: NotebookReview, copy: KernelCopy): TemplateResult {
    const { session } = this.transcript;
    const close = (): void => {
      this.transcript.close();
      this.draw();
      const row = this.root.querySelector<HTMLElement>(`[data-opens="${session?.id ?? ''}"]`);
      (row ?? this.root.querySelector<HTMLElement>('.planck-find'))?.focus();
    };
    return this.transcript.content(isBusy(current, copy), close, session === null ? html`` : this.actions(current, copy, session));
  }

  private open(current: NotebookReview, session: StoredSession, message = 0): void {
    this.transcript.open(current, session, message);
    this.draw();
    this.root.querySelector<HTMLElement>('section > h2 > button')?.focus();
  }

  /** Why less is shown than there might be, and what to do. */
  private notice(current: NotebookReview | null, copy: KernelCopy | null): TemplateResult | typeof nothing {
    if (current === null || copy === null) {
      return said('Open a notebook', 'The agents of its kernel are shown here.', act('New notebook', this.newNotebook));
    }
    const { link } = current;
    switch (link.state) {
      case 'none':
        return said('No kernel', 'Agents work in a kernel; this notebook has none.', act('Start a kernel', () => void this.start(current)));
      case 'absent': {
        const load = act('Load planck_nb', () => void this.load(current));
        return said('planck_nb is not loaded', 'Agents need it in this kernel.', load);
      }
      case 'unknown':
        return said('The kernel has not answered yet', 'It answers when it has started, or when its cell ends.');
      case 'connected':
    }
    if (link.problem !== '') return said('Two versions', link.problem);
    const now = performance.now();
    const age = copy.age(now);
    if (copy.overview !== null && age <= OLD_SECONDS) return nothing;
    const since = copy.overview === null ? 'Nothing is known yet.' : `What stands here is ${Math.floor(age)} s old.`;
    if (copy.overview === null && link.isConcurrent && copy.silence(now) <= OLD_SECONDS) return nothing;
    const title = copy.overview?.running === false && link.isConcurrent ? 'The kernel does not answer' : 'The kernel is busy';
    return said(title, link.isConcurrent ? since : `${since} ${BETWEEN_CELLS}`);
  }

  private async start(current: NotebookReview): Promise<void> {
    const { sessionContext } = current.panel.context;
    try {
      if (await sessionContext.startKernel()) this.said = 'Choose a kernel in the toolbar of the notebook.';
    } catch (error) {
      this.said = `The kernel did not start: ${error instanceof Error ? error.message : String(error)}`;
    }
    this.draw();
  }

  private async load(current: NotebookReview): Promise<void> {
    const kernel = current.panel.context.sessionContext.session?.kernel;
    const reply = await kernel?.requestExecute({ code: '%load_ext planck_nb', store_history: false }).done.catch(() => null);
    const problem = reply?.content.status === 'error' ? `${reply.content.ename}: ${reply.content.evalue}` : '';
    this.said = problem === '' ? '' : `planck_nb could not be loaded. ${problem} Run \`%pip install planck-nb\`, then restart the kernel.`;
    this.draw();
  }

  /** The waiting calls in all kernels. */
  private waiting(current: NotebookReview | null): TemplateResult | typeof nothing {
    const now = performance.now();
    const parts: TemplateResult[] = [];
    let total = 0;
    for (const [review, shown] of this.shown) {
      const calls = shown.copy.overview?.waiting ?? [];
      total += calls.length;
      if (calls.length > 0 && shown.approvals === null) void this.makeApprovals(review, shown);
      if (shown.approvals === null) continue;
      const names = new Map(calls.map((call) => [call.agent, call.agent_name]));
      shown.approvals.update(calls, names);
      shown.approvals.tick(shown.copy.time(now));
      if (calls.length === 0) continue;
      parts.push(html`${review === current ? nothing : html`<h3>${nameOf(review)}</h3>`}${shown.approvals.element}`);
    }
    return total === 0 ? nothing : html`<h2>Waits for you<span>${total}</span></h2>${parts}`;
  }

  private async makeApprovals(review: NotebookReview, shown: Shown): Promise<void> {
    const { ApprovalsView: View } = await viewModule();
    shown.approvals ??= new View((decision) => {
      this.said = '';
      review.link.send({ type: 'approve', ...decision });
    });
    this.draw();
  }

  private work(current: NotebookReview | null): TemplateResult | typeof nothing {
    const now = performance.now();
    const rows: { readonly key: string; readonly review: NotebookReview; readonly agent: AgentEntry; readonly isOld: boolean }[] = [];
    let busy = 0;
    let all = 0;
    for (const [review, { copy }] of this.shown) {
      const isOld = copy.age(now) > OLD_SECONDS;
      for (const agent of copy.overview?.agents ?? []) {
        const isBusy = agent.status !== 'idle';
        all += 1;
        busy += isBusy ? 1 : 0;
        if (review === current || isBusy) rows.push({ key: `${review.panel.id} ${agent.name}`, review, agent, isOld });
      }
    }
    if (all === 0) return nothing;
    rows.sort((one, other) => Number(one.agent.status === 'idle') - Number(other.agent.status === 'idle'));
    const isLong = rows.length > WINDOW / ROW;
    const row = ({ review, agent, isOld }: (typeof rows)[number], at: number): TemplateResult => {
      const isElsewhere = review !== current;
      const says = [doing(agent, isOld), isElsewhere ? nameOf(review) : ''].filter((text) => text !== '').join(' · ');
      const figure = agent.cost === null ? '' : dollars(agent.cost);
      const name = isElsewhere
        ? html`<button class="planck-name" type="button" @click=${() => this.activateNotebook(review)}>${agent.name}</button>`
        : html`<span class="planck-name">${agent.name}</span>`;
      return html`<li class="planck-row" aria-posinset=${isLong ? at + 1 : nothing} aria-setsize=${isLong ? rows.length : nothing}>${markOf(agent, isOld)}${name}<span class="planck-figure">${figure}</span><small>${says}</small></li>`;
    };
    const list = isLong ? this.window('agents', rows, ({ key }) => key, row) : html`<ul class="planck-list">${repeat(rows, ({ key }) => key, row)}</ul>`;
    return html`<h2>At work<span>${busy} of ${all}</span></h2>${list}`;
  }

  /** A long list; only what is in sight is in the document. */
  private window<Entry>(
    name: List,
    entries: readonly Entry[],
    key: (entry: Entry) => string,
    row: (entry: Entry, at: number) => TemplateResult,
    open = -1,
  ): TemplateResult {
    const { first, last, before, after } = windowOf(entries.length, { top: this.tops[name], height: WINDOW, row: ROW, open, more: ACTIONS });
    const scroll = (event: Event): void => {
      this.tops[name] = (event.currentTarget as HTMLElement).scrollTop;
      this.draw();
    };
    return html`<div class="planck-window" data-list=${name} tabindex="0" role="group" aria-label=${`All ${name}`} @scroll=${scroll} @keydown=${name === 'sessions' ? STEP : null}>
      <ul class="planck-list" style=${`padding-block: ${before}px ${after + 8}px`}>${repeat(entries.slice(first, last), key, (entry, at) => row(entry, first + at))}</ul>
    </div>`;
  }

  private sessions(current: NotebookReview, copy: KernelCopy): TemplateResult {
    const { sessions, problem } = copy.history;
    const wanted = this.find.trim().toLowerCase();
    const found = this.isOpen && wanted !== '' ? sessions.filter(({ name, id }) => name.toLowerCase().includes(wanted) || id === wanted) : sessions;
    const toggle = (): void => {
      this.isOpen = !this.isOpen;
      this.find = this.opened = '';
      this.tops.sessions = 0;
      this.draw();
    };
    const isShort = sessions.length <= RECENT;
    const label = this.isOpen ? (isShort ? 'Close' : 'Fewer') : isShort ? 'Search' : `All ${sessions.length}`;
    const isUnread = copy.overview?.stored === 0;
    const door = sessions.length === 0 && !isUnread && !this.isOpen ? nothing : html`<button class="pk-btn" type="button" data-kind="bare" aria-expanded=${this.isOpen} @click=${toggle}>${label}</button>`;
    const type = (event: Event): void => {
      this.find = (event.target as HTMLInputElement).value;
      this.tops.sessions = 0;
      this.draw();
    };
    const turn = (): void => {
      this.texts.isOn = !this.texts.isOn;
      this.draw();
    };
    const search = html`<div class="planck-search">
      <input class="pk-field planck-find" type="search" aria-label="Find a session" placeholder="Find a session" .value=${this.find} @input=${type}>
      <button class="pk-btn pk-chip" type="button" aria-pressed=${this.texts.isOn} title="Search all messages, too" @click=${turn}>In texts</button>
    </div>`;
    if (this.isOpen && this.texts.isOn) {
      this.texts.set(current, this.find);
      const show = (hit: SearchHit): void => {
        const { session: id, session_name: name, time: used } = hit;
        this.open(current, sessions.find((each) => each.id === id) ?? { id, name, messages: 0, cost: null, used }, hit.id);
      };
      return html`<h2>Sessions${door}</h2>${search}${this.texts.content(isBusy(current, copy), show)}`;
    }
    const empty = problem !== '' ? problem : isUnread ? (copy.isBusy(performance.now()) ? 'They are read when the kernel is free.' : 'They are read now.') : wanted === '' ? 'None in this folder yet.' : 'No session has this in its name.';
    return html`<h2>Sessions${door}</h2>
      ${this.isOpen ? search : nothing}
      ${found.length === 0 || problem !== '' ? html`<p class="pk-hint">${empty}</p>` : nothing}
      ${this.isOpen ? this.window('sessions', found, ({ id }) => id, (each, at) => this.session(current, copy, each, at, found.length), found.findIndex(({ id }) => id === this.opened)) : html`<ul class="planck-list">${repeat(found.slice(0, RECENT), ({ id }) => id, (session) => this.session(current, copy, session))}</ul>`}`;
  }

  private session(current: NotebookReview, copy: KernelCopy, session: StoredSession, at = -1, of = 0): TemplateResult {
    const isOpen = session.id === this.opened;
    const isOwn = session.id === copy.overview?.session;
    const choose = (): void => {
      this.opened = isOpen ? '' : session.id;
      this.draw();
    };
    const actions = html`<span class="pk-acts">
      ${act('Transcript', () => this.open(current, session), 'bare')}
      ${this.actions(current, copy, session)}
    </span>`;
    const says = `${isOwn ? 'this notebook · ' : ''}${timeOf(session.used)} · ${session.messages} ${session.messages === 1 ? 'message' : 'messages'}`;
    return html`<li class="planck-row" aria-current=${isOpen ? 'true' : nothing} aria-posinset=${at < 0 ? nothing : at + 1} aria-setsize=${at < 0 ? nothing : of}>
      <span class="pk-mark"></span><button class="planck-name" type="button" data-opens=${session.id} aria-expanded=${isOpen} @click=${choose}>${session.name}</button>
      <span class="planck-figure">${session.cost === null ? '' : dollars(session.cost)}</span><small>${says}</small>
      ${isOpen ? actions : nothing}
    </li>`;
  }

  private actions(current: NotebookReview, copy: KernelCopy, session: StoredSession): TemplateResult {
    const word = wordFor(session, copy.history.sessions);
    const runs = (label: string, line: string): TemplateResult => act(label, () => this.insert(current, line, true), 'bare');
    return html`
      ${session.id === copy.overview?.session ? nothing : runs('Resume', `%planck resume ${word}`)}
      ${session.id === copy.overview?.session ? runs('Fork', '%planck fork') : nothing}
      ${act('Export', () => this.insert(current, `%planck export ${word} ${word}.html`, false), 'bare')}`;
  }

  /** Put a magic line into a cell below the active one, so that the notebook has it. */
  private insert(current: NotebookReview, line: string, run: boolean): void {
    const below = current.panel.content.activeCell?.model.id;
    if (below !== undefined) current.insertBelow(below, line, run);
  }
}

const FIRST = html`<h2>Start here</h2><ol class="pk-first">
  <li><b>Ask</b><span>Below, or in a cell that begins with <code>%%planck</code></span></li>
  <li><b>Show it your data</b><span>Type <code>@orders</code> in the question</span></li>
  <li><b>Stay in charge</b><span>It asks before it changes or runs anything</span></li>
</ol>`;

function isBusy(review: NotebookReview, copy: KernelCopy): boolean {
  return copy.isBusy(performance.now()) || review.runsCell;
}

function usage({ history }: KernelCopy): TemplateResult {
  const cost = history.cost === null ? '' : `${history.unpriced ? '≥ ' : ''}${dollars(history.cost)}`;
  const tokens = `${count(history.tokens)} tokens`;
  return html`<h2>Usage<span>today</span></h2><div class="planck-sum">${cost === '' ? tokens : html`${cost}<small>${tokens}</small>`}</div>`;
}

function said(title: string, text: string, action: TemplateResult | typeof nothing = nothing): TemplateResult {
  return html`<div class="pk-age" role="status">${glyph('clock')}<span><b>${title}</b>${coded(text)}${action === nothing ? nothing : html`<br>${action}`}</span></div>`;
}

function markOf({ status, waits_for: waits }: AgentEntry, isOld: boolean): TemplateResult {
  const isApproval = waits.startsWith('approval');
  const [state, shape]: readonly [string, Shape] = isApproval ? ['ask', 'diamond'] : status === 'idle' ? ['', 'dot'] : isOld || waits !== '' ? ['', 'clock'] : ['run', 'ring'];
  return html`<span class="pk-mark" data-state=${state}>${glyph(shape)}</span>`;
}

function nameOf({ panel }: NotebookReview): string {
  return panel.context.path.split('/').at(-1) ?? '';
}

/** How a line names a session: by a plain and unique name, else by its id. */
function wordFor({ id, name }: StoredSession, all: readonly StoredSession[]): string {
  const isPlain = /^[a-z0-9][\w.-]*$/i.test(name) && name !== 'last';
  return isPlain && all.every((other) => other.id === id || other.name !== name) ? name : id;
}

/** Go through the rows. */
const STEP = keyHandler('sessions', {
  move: (event) => moveFocus([...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('.planck-name')], event),
});
