/** The live view of a run: a scrolling transcript, approval requests and controls; a slim bar once the run is over. */

import { Announcer } from './announcer.ts';
import { intention } from '../model/approval-text.ts';
import { ApprovalsView } from './approvals-view.ts';
import { addCodeTools } from './code-tools.ts';
import type { Command, Connection, Refusal } from '../model/connection.ts';
import { h, setText } from './dom.ts';
import { dollars, elapsed } from '../model/format.ts';
import { FollowedWindow } from './followed-window.ts';
import { onKeys } from './keys.ts';
import type { PendingApproval } from '../model/agent-state.ts';
import { QuestionsView } from './questions-view.ts';
import { cancelPaint, paintSoon, waitForPresses } from './paint-queue.ts';
import { RunControls, unsentTexts } from './run-controls.ts';
import { toWords } from '../text/markdown.ts';
import { NotebookCell } from './notebook-cell.ts';
import type { NotebookManager } from './notebook-cell.ts';
import { approvalsOf, isTeam, itemsOf, nameOf, namesOf, statusOf } from '../model/run.ts';
import type { Run } from '../model/run.ts';
import { OUTCOME, SummaryBar } from './summary-bar.ts';
import type { Summary } from './summary-bar.ts';
import { decorate } from './saved-output.ts';
import { hideError } from './static-output.ts';
import { keepPlace, scrollerOf } from './scroll-anchor.ts';
import { itemsOfAgent, itemsOfLeader, leaderOf, tasksOfApprovals } from '../model/team.ts';
import { TeamView } from './team-view.ts';
import { TranscriptView } from './transcript.ts';

const TICK_MS = 200;
const NOT_SAVED = 'This answer is not saved in the notebook; %planck answer shows it in a cell, where it is.';
const GONE = 'This answer is not in the notebook; %planck answer shows it again.';

/** What shows a run while it goes on. */
class LiveParts {
  readonly transcript = new TranscriptView();
  readonly team: TeamView;
  /** Above the transcript of the agent that leads a team: its name. */
  readonly heading = h('h3', { class: 'pk-h', hidden: '' });
  readonly window = new FollowedWindow(this.transcript.element, 'Agent run');
  readonly approvals: ApprovalsView;
  readonly questions: QuestionsView;
  readonly controls: RunControls;

  constructor(agent: string, send: (command: Command) => void, clicks: boolean) {
    this.team = new TeamView(send);
    this.approvals = new ApprovalsView((decision) => send({ type: 'decide', ...decision }));
    this.questions = new QuestionsView((answer) => send({ type: 'answer', ...answer }));
    this.controls = new RunControls(agent, send, clicks);
  }

  /** The elements in their order. */
  get elements(): HTMLElement[] {
    const { team, heading, window, approvals, questions, controls } = this;
    return [controls.bar, team, heading, window, window.latest, approvals, questions, controls].map((part) =>
      part instanceof HTMLElement ? part : part.element,
    );
  }

  /** The texts that the user has not sent. */
  get drafts(): string[] {
    return [this.controls.draft, ...this.team.drafts];
  }

  dispose(): void {
    this.window.dispose();
    this.team.dispose();
  }
}

export class RunView {
  private readonly connection: Connection;
  private readonly root: HTMLElement;
  /** Null once the view is a bar: most views of a page are of runs that are over, and keep only what they show. */
  private parts: LiveParts | null;
  private readonly announcer = new Announcer();
  private readonly agent: string;
  private readonly cell: NotebookCell;
  private readonly cleanups: (() => void)[] = [];
  private readonly paintNow = (): void => this.paint();
  /** The bar above a transcript that stays open after the run; null while it goes on. */
  private bar: HTMLElement | null = null;
  private readonly endNote = h('p', { class: 'pk-facts' });
  /** The newest failure has been announced. */
  private failureAnnounced = false;

  constructor(
    connection: Connection,
    agent: string,
    parent: HTMLElement,
    clicks = true,
    manager: NotebookManager | null = null,
  ) {
    this.agent = agent;
    this.cell = new NotebookCell(manager, parent);
    this.connection = connection;
    const parts = new LiveParts(agent, (command) => this.send(command), clicks);
    this.parts = parts;
    this.root = h(
      'div',
      { class: 'pk', role: 'group', 'aria-label': `Run of ${agent}`, 'data-lm-suppress-shortcuts': 'true' },
      ...parts.elements,
      this.announcer.element,
    );
    if (!clicks) for (const part of [parts.approvals, parts.questions]) part.element.remove(); // the cell asks in its own way
    parent.append(this.root);
    addCodeTools(this.root, this.announcer, this.cell);
    waitForPresses(this.root);
    onKeys(this.root, 'run', { stop: () => this.send({ type: 'stop' }), leave: () => this.focusCell() });
    this.cleanups.push(connection.onChange(() => this.schedule()));
    this.cleanups.push(connection.onRefusal((refusal) => this.showRefusal(refusal)));
    const timer = window.setInterval(() => this.tick(), TICK_MS);
    this.cleanups.push(() => clearInterval(timer));
    this.paint();
  }

  dispose(): void {
    cancelPaint(this.paintNow);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.parts?.dispose();
    this.announcer.dispose();
    this.root.remove();
  }

  /** The run is over, and the notebook does not contain its output: keep the transcript, without the controls. */
  keepOpen(summary: Summary): void {
    const { parts } = this;
    if (parts === null || this.bar !== null) return;
    const { element: bar, note } = this.barOf(summary);
    this.bar = bar;
    parts.controls.update(this.connection.run, this.connection.ended); // may put prompts back into the field
    const { drafts } = parts;
    const open = (): void => {
      for (const part of [parts.approvals, parts.questions, parts.controls, parts.controls.bar]) part.element.remove();
      this.root.classList.add('pk-kept');
      this.root.prepend(bar);
      this.root.append(...(note === null ? [] : [note]), this.endNote, ...unsentTexts(drafts, this.announcer));
      this.paint();
    };
    keepPlace(parts.window.element, parts.window.isAtEnd, open, () => null);
  }

  /** Replace the view by a bar: the run is over, and its static output is below, which `saved` returns. */
  collapse(summary: Summary, saved: () => Element | null = () => null): void {
    const { parts } = this;
    if (parts === null) return;
    this.parts = null;
    cancelPaint(this.paintNow);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    const { run } = this.connection;
    const items = isTeam(run) ? itemsOfLeader(run) : itemsOf(run);
    const wasVisible = isVisible(parts.controls.element);
    const hadFocus = this.root.contains(document.activeElement);
    parts.controls.update(this.connection.run, this.connection.ended); // may put prompts back into the field
    const { drafts } = parts;
    let output: Element | null = null;
    const fold = (): void => {
      for (const element of parts.elements) element.remove();
      parts.dispose();
      this.root.classList.remove('pk-kept');
      this.root.classList.add('pk-folded');
      this.endNote.remove();
      this.bar?.remove();
      output = saved();
      const { element, note } = this.barOf(summary);
      if (output instanceof HTMLElement) decorate(output, items, note, this.cell, this.announcer);
      this.root.prepend(element, ...(output === null && note !== null ? [note] : []));
      this.root.append(...unsentTexts(drafts, this.announcer));
      if (summary.outcome === 'failed') hideError(this.root, summary.ending?.[1] ?? '');
    };
    const kept = keepPlace(parts.window.element, parts.window.isAtEnd, fold, () => output);
    this.bar = null;
    this.connection.release();
    this.showLateRefusals();
    if (hadFocus) this.focusCell();
    // The notebook may now be scrolled past its end, where nothing is visible.
    if (wasVisible && !kept) this.root.scrollIntoView({ block: 'nearest' });
    const cost = summary.cost === null ? '' : `, ${dollars(summary.cost)}`;
    this.announcer.announceNow(`${OUTCOME[summary.outcome]}, ${elapsed(summary.seconds)}${cost}. ${toWords(summary.text.slice(0, 2000)).slice(0, 200)}`);
  }

  /**
   * Show what was sent just before the end and comes back later. This is a method of its own because functions that are
   * made in one call keep all that any of them uses: here, the parts of the live view.
   */
  private showLateRefusals(): void {
    this.cleanups.push(this.connection.onRefusal(({ text }) => this.root.append(...unsentTexts([text], this.announcer))));
  }

  private barOf(summary: Summary): SummaryBar {
    return new SummaryBar(summary, this.agent, this.cell, this.connection.requests, this.announcer);
  }

  private schedule(): void {
    paintSoon(this.paintNow);
  }

  private paint(): void {
    const { parts } = this;
    if (parts === null) return;
    const { run, ended, gone } = this.connection;
    setText(this.endNote, gone ? GONE : NOT_SAVED);
    const names = namesOf(run);
    const approvals = approvalsOf(run);
    this.root.classList.toggle('pk-lost', ended);
    parts.window.element.setAttribute('aria-busy', String(!ended));
    const news = this.inPlace(parts.window, () => parts.team.update(run, this.connection.now()));
    const changed = this.showTranscript(parts, run);
    const focused = parts.approvals.element.contains(document.activeElement);
    const fresh = parts.approvals.update(approvals, names, tasksOfApprovals(run, approvals));
    // The block that had the focus was removed: keys now go to the transcript.
    if (focused && !parts.approvals.element.contains(document.activeElement)) parts.window.element.focus({ preventScroll: true });
    const { questions, notice } = this.connection.questions;
    const asked = parts.questions.update(ended ? [] : questions, notice);
    parts.controls.update(run, ended);
    this.announce(fresh, names, news);
    for (const { sidecar, message } of asked) this.announcer.announceNow(`The sidecar ${sidecar} asks: ${message}`);
    this.tick();
    if (changed) parts.window.follow();
  }

  /** Show everything, or of a team what the agent that leads it does. Returns whether anything has changed. */
  private showTranscript({ heading, transcript }: LiveParts, run: Run): boolean {
    const team = isTeam(run);
    const leader = leaderOf(run);
    heading.hidden = !team;
    if (team) setText(heading, nameOf(run, leader));
    return transcript.update(team ? itemsOfLeader(run) : itemsOf(run));
  }

  /** Make a change above the transcript; what the user reads or points at in the transcript stays where it is. */
  private inPlace<T>({ element }: FollowedWindow, change: () => T): T {
    if (!element.matches(':hover') && !element.contains(document.activeElement)) return change();
    const before = element.getBoundingClientRect().top;
    const result = change();
    const moved = element.getBoundingClientRect().top - before;
    if (moved !== 0) scrollerOf(this.root)?.scrollBy(0, moved);
    return result;
  }

  /** Announce approval requests and failures immediately, everything else when there is time. */
  private announce(
    approvals: readonly PendingApproval[],
    names: ReadonlyMap<string, string>,
    news: readonly string[],
  ): void {
    const { run, ended } = this.connection;
    const team = isTeam(run);
    const last = (team ? itemsOfAgent(run, leaderOf(run)) : itemsOf(run)).at(-1);
    const failed = last?.kind === 'note' && last.state === 'bad';
    if (approvals.length > 0) {
      this.announcer.announceNow(approvals.map((approval) => announcement(approval, names)).join(' '));
    } else if (failed && !this.failureAnnounced) this.announcer.announceNow(last.title);
    else if (ended) this.announcer.announceNow(statusOf(run));
    else if (!team) this.announcer.announce(statusOf(run));
    this.announcer.add(news);
    this.failureAnnounced = failed;
  }

  private send(command: Command): void {
    this.parts?.controls.showRefusal('');
    this.connection.send(command);
  }

  private showRefusal({ reason, text, agent_id: agent = null }: Refusal): void {
    const { parts } = this;
    if (parts === null) return;
    parts.approvals.release();
    parts.questions.release();
    if (!parts.team.showRefusal(agent, reason, text)) parts.controls.showRefusal(reason, text);
    this.announcer.announceNow(reason);
  }

  private tick(): void {
    const { parts } = this;
    if (parts === null || this.connection.ended) return;
    const now = this.connection.now();
    parts.transcript.tick(now);
    parts.team.tick(now);
    parts.approvals.tick(now);
    parts.questions.tick(now);
    parts.controls.tick(this.connection.run, now);
  }

  /** Give the focus back to the cell. */
  private focusCell(): void {
    this.root.closest<HTMLElement>('.jp-Cell, .jp-Notebook')?.focus({ preventScroll: true });
  }
}

function isVisible(element: HTMLElement): boolean {
  const { top, bottom, height } = element.getBoundingClientRect();
  return height > 0 && bottom > 0 && top < window.innerHeight;
}

function announcement({ agent, name, display }: PendingApproval, names: ReadonlyMap<string, string>): string {
  const { verb, target } = intention(display);
  const by = names.get(agent);
  return `Approval needed: ${by === undefined ? '' : `${by}, `}${name} ${verb} ${target}`.trimEnd() + '.';
}
