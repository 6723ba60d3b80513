/** The live view of a run: a scrolling transcript, approval requests and controls; a slim bar once the run is over. */

import { Announcer } from './announcer.ts';
import { intention } from './approval-text.ts';
import { ApprovalsView } from './approvals-view.ts';
import type { Command, Connection, Refusal } from './connection.ts';
import { h } from './dom.ts';
import { dollars, elapsed } from './format.ts';
import type { PendingApproval } from './agent-state.ts';
import { RunControls, unsentTexts } from './run-controls.ts';
import { approvalsOf, itemsOf, namesOf, statusOf } from './run.ts';
import { OUTCOME, summaryBar } from './summary-bar.ts';
import type { Summary } from './summary-bar.ts';
import { TranscriptView } from './transcript.ts';

const TICK_MS = 200;

/** The view follows the newest text while its end is this near, in pixels. */
const NEAR = 24;

export class RunView {
  private readonly connection: Connection;
  private readonly root: HTMLElement;
  private readonly transcript = new TranscriptView();
  private readonly window: HTMLElement;
  private readonly latest: HTMLElement;
  private readonly approvals: ApprovalsView;
  private readonly controls: RunControls;
  private readonly announcer = new Announcer();
  private readonly cleanups: (() => void)[] = [];
  private frame = 0;
  private following = true;
  private collapsed = false;
  /** The newest failure has been announced. */
  private failureAnnounced = false;

  constructor(connection: Connection, agent: string, parent: HTMLElement, clicks = true) {
    this.connection = connection;
    this.approvals = new ApprovalsView((decision) => this.send({ type: 'decide', ...decision }));
    this.controls = new RunControls((command) => this.send(command), clicks);
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
      this.approvals.element,
      this.controls.element,
      this.announcer.element,
    );
    if (!clicks) this.approvals.element.remove(); // the cell asks in its own way
    parent.append(this.root);
    this.root.addEventListener('keydown', (event) => this.key(event));
    this.watchScrolling();
    this.cleanups.push(connection.onChange(() => this.schedule()));
    this.cleanups.push(connection.onRefusal((refusal) => this.showRefusal(refusal)));
    const timer = window.setInterval(() => this.tick(), TICK_MS);
    this.cleanups.push(() => clearInterval(timer));
    this.paint();
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.announcer.dispose();
    this.root.remove();
  }

  /** Replace the view by a bar: the run is over, and its static output is below. */
  collapse(summary: Summary): void {
    if (this.collapsed) return;
    this.collapsed = true;
    cancelAnimationFrame(this.frame);
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    const wasVisible = isVisible(this.controls.element);
    const hadFocus = this.root.contains(document.activeElement);
    for (const part of [this.window, this.latest, this.approvals.element, this.controls.element]) part.remove();
    this.root.classList.add('pk-folded');
    this.root.prepend(summaryBar(summary, this.announcer));
    this.controls.update(this.connection.run, this.connection.ended);
    this.root.append(...unsentTexts([this.controls.draft], this.announcer));
    // What was sent just before the end comes back later.
    this.cleanups.push(this.connection.onRefusal(({ text }) => this.root.append(...unsentTexts([text], this.announcer))));
    if (hadFocus) this.focusCell();
    // The notebook may now be scrolled past its end, where nothing is visible.
    if (wasVisible) this.root.scrollIntoView({ block: 'nearest' });
    const cost = summary.cost === null ? '' : `, ${dollars(summary.cost)}`;
    this.announcer.announceNow(`${OUTCOME[summary.outcome]}, ${elapsed(summary.seconds)}${cost}. ${summary.text.slice(0, 200)}`);
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
    const { run, ended } = this.connection;
    const names = namesOf(run);
    const approvals = approvalsOf(run);
    this.root.classList.toggle('pk-lost', ended);
    this.window.setAttribute('aria-busy', String(!ended));
    this.transcript.update(itemsOf(run), names);
    const focused = this.approvals.element.contains(document.activeElement);
    const fresh = this.approvals.update(approvals, names);
    // The block that had the focus was removed: keys now go to the transcript.
    if (focused && !this.approvals.element.contains(document.activeElement)) this.window.focus({ preventScroll: true });
    this.controls.update(run, ended);
    this.announce(fresh, names);
    this.tick();
    this.follow(this.following);
  }

  /** Announce approval requests and failures immediately, everything else when there is time. */
  private announce(approvals: readonly PendingApproval[], names: ReadonlyMap<string, string>): void {
    const { run, ended } = this.connection;
    const last = itemsOf(run).at(-1);
    const failed = last?.kind === 'note' && last.state === 'bad';
    if (approvals.length > 0) {
      this.announcer.announceNow(approvals.map((approval) => announcement(approval, names)).join(' '));
    } else if (failed && !this.failureAnnounced) this.announcer.announceNow(last.title);
    else if (ended) this.announcer.announceNow(statusOf(run));
    else this.announcer.announce(statusOf(run));
    this.failureAnnounced = failed;
  }

  private send(command: Command): void {
    this.controls.showRefusal('');
    this.connection.send(command);
  }

  private showRefusal({ reason, text }: Refusal): void {
    this.approvals.release();
    this.controls.showRefusal(reason, text);
    this.announcer.announceNow(reason);
  }

  private tick(): void {
    if (this.connection.ended) return;
    const now = this.connection.now();
    this.transcript.tick(now);
    this.approvals.tick(now);
    this.controls.tick(this.connection.run, now);
  }

  private follow(on: boolean): void {
    this.following = on;
    if (on) this.window.scrollTop = this.window.scrollHeight;
    this.latest.hidden = on || this.below() <= NEAR;
  }

  /** The height of the transcript below the visible part, in pixels. */
  private below(): number {
    return this.window.scrollHeight - this.window.scrollTop - this.window.clientHeight;
  }

  /** Stop following when the user scrolls up, selects text or moves the focus into the transcript. */
  private watchScrolling(): void {
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

  /** Give the focus back to the cell. */
  private focusCell(): void {
    this.root.closest<HTMLElement>('.jp-Cell, .jp-Notebook')?.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    if (event.key === '.' && (event.ctrlKey || event.metaKey)) this.send({ type: 'stop' });
    else if (event.key === 'Escape') this.focusCell();
    else return;
    event.preventDefault();
    event.stopPropagation();
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
