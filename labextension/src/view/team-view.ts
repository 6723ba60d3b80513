/** The agents of a team as a table of rows that open, and below it the tasks that they give each other. */

import type { Command } from '../model/connection.ts';
import { h, setText } from './dom.ts';
import { count, dollars } from '../model/format.ts';
import { moveFocus, onKeys } from './keys.ts';
import { LaneView } from './lane-view.ts';
import { isTeam, spentOf } from '../model/run.ts';
import type { Run } from '../model/run.ts';
import { ExchangesView } from './exchanges-view.ts';
import { exchangesOf, FEW, itemsOfAgent, lanesOf, newsOf, restOf, sharedModelOf, shownLanes, waitingFirst } from '../model/team.ts';
import type { Exchange, Lane } from '../model/team.ts';

type Send = (command: Command) => void;

/** Many rows are shown again at most once in this time. */
const PAUSE_MS = 80;

export class TeamView {
  readonly element = h('div', { class: 'pk-crew', hidden: '' });
  private readonly grid = h('div', { class: 'pk-team', role: 'treegrid', 'aria-label': 'Team' });
  private readonly scroller = h('div', { class: 'pk-lanes' }, this.grid);
  private readonly agents = h('span', { class: 'pk-who', role: 'gridcell' });
  private readonly summary = h('span', { class: 'pk-doing', role: 'gridcell' });
  private readonly tokens = h('span', { class: 'pk-fig pk-wide', role: 'gridcell' });
  private readonly cost = h('b');
  private readonly rest = h('button', { class: 'pk-more', type: 'button', 'aria-expanded': 'false', tabindex: '-1' });
  private readonly restRow = h('div', { class: 'pk-restrow', role: 'row' }, h('span', { role: 'gridcell' }, this.rest));
  private readonly exchanges = new ExchangesView();
  private readonly lanes = new Map<string, LaneView>();
  /** Texts that were written for an agent and not sent, by its id. */
  private readonly unsent = new Map<string, string>();
  private readonly send: Send;
  private run: Run | null = null;
  private now = 0;
  private known: readonly Exchange[] = [];
  private all = false;
  private focused = '';
  private height = 0;
  /** When the rows were last shown, in milliseconds. */
  private shown = -Infinity;
  /** The run has changed since. */
  private isDue = false;

  constructor(send: Send) {
    this.send = send;
    const cell = (name: string, className = ''): HTMLElement => h('span', { class: className, role: 'columnheader' }, name);
    const hidden = (name: string): HTMLElement =>
      h('span', { role: 'columnheader' }, h('span', { class: 'pk-sr' }, name));
    this.grid.append(
      h(
        'div',
        { class: 'pk-head', role: 'row' },
        ...[hidden('State'), cell('Agent', 'pk-who'), cell('Now')],
        ...[cell('Tokens', 'pk-fig pk-wide'), cell('Cost', 'pk-fig'), hidden('Open')],
      ),
      this.restRow,
    );
    const total = h(
      'div',
      { class: 'pk-sumrow', role: 'row' },
      h('span', { role: 'gridcell' }),
      ...[this.agents, this.summary, this.tokens],
      h('span', { class: 'pk-fig', role: 'gridcell' }, this.cost),
      h('span', { role: 'gridcell' }),
    );
    this.grid.append(total);
    this.element.append(this.scroller, this.exchanges.element);
    this.rest.addEventListener('click', () => {
      this.all = !this.all;
      if (this.run !== null) this.showTeam(this.run);
    });
    onKeys(this.grid, 'member', { leave: leaveInset });
    onKeys(this.grid, 'team', {
      move: (event) => this.stops.includes(event.target as HTMLElement) && moveFocus(this.stops, event),
      toggle: (event) => this.set(event, null),
      open: (event) => this.set(event, true),
      close: (event) => this.set(event, false),
    });
    this.grid.addEventListener('focusin', (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>('.pk-lane');
      this.focused = row?.dataset['agent'] ?? this.focused;
      this.setTabStop();
    });
  }

  /** Show the team of the run. Returns the sentences about what has happened between its agents since the last time. */
  update(run: Run, now: number): readonly string[] {
    this.run = run;
    this.now = now;
    this.element.hidden = !isTeam(run);
    if (this.element.hidden) return [];
    for (const view of this.lanes.values()) view.details?.show(itemsOfAgent(run, view.id), now);
    this.isDue = true;
    if (this.lanes.size <= FEW || performance.now() - this.shown >= PAUSE_MS) this.showTeam(run);
    const exchanges = exchangesOf(run);
    this.exchanges.update(exchanges);
    const news = newsOf(this.known, exchanges);
    this.known = exchanges;
    return news;
  }

  tick(now: number): void {
    if (this.isDue && this.run !== null) this.showTeam(this.run);
    for (const view of this.lanes.values()) view.details?.tick(now);
  }

  /** Show why a command to an agent failed. Returns whether it could be shown. */
  showRefusal(agent: string | null, reason: string, text: string): boolean {
    const details = agent === null ? undefined : this.lanes.get(agent)?.details;
    details?.showRefusal(reason, text);
    return details !== undefined && details !== null;
  }

  /** The texts that the user has written for single agents and not sent. */
  get drafts(): readonly string[] {
    for (const view of this.lanes.values()) this.keepDraft(view);
    return [...this.unsent.values()];
  }

  dispose(): void {
    for (const view of this.lanes.values()) view.details?.dispose();
    this.element.remove();
  }

  private showTeam(run: Run): void {
    const lanes = lanesOf(run);
    this.grid.classList.toggle('pk-alike', sharedModelOf(run) !== null);
    this.showLanes(lanes);
    this.showSummary(run, lanes);
    this.isDue = false;
    this.shown = performance.now();
  }

  /** Rows are neither added nor removed above what the user points at or has focused, while many agents take turns. */
  private showLanes(lanes: readonly Lane[]): void {
    const inUse = this.grid.matches(':hover') || this.grid.contains(document.activeElement);
    const keep = new Set([...this.lanes.values()].flatMap((view) => (inUse || view.details !== null || view.contains ? [view.id] : [])));
    const wanted = waitingFirst(this.all ? lanes : shownLanes(lanes, keep));
    const shown = inUse && this.lanes.size > FEW && !this.all ? wanted.filter(({ id }) => this.lanes.has(id)) : wanted;
    const ids = new Set(shown.map(({ id }) => id));
    const before = this.lanes.size;
    let changed = false;
    for (const [id, view] of this.lanes) {
      if (ids.has(id)) continue;
      this.keepDraft(view);
      view.remove();
      this.lanes.delete(id);
      changed = true;
    }
    let last: Element | null = this.grid.firstElementChild;
    for (const lane of shown) {
      const known = this.lanes.get(lane.id);
      const view = known ?? new LaneView(lane, () => this.toggle(lane.id));
      if (known === undefined) {
        this.lanes.set(lane.id, view);
        last?.after(view.row);
        changed = true;
      } else {
        known.update(lane);
        // Nothing moves under the pointer.
        if (!inUse && view.details === null && last?.nextElementSibling !== view.row) last?.after(view.row);
      }
      last = view.details?.element ?? view.row;
    }
    const hidden = lanes.filter(({ id }) => !ids.has(id));
    const many = lanes.length > FEW;
    this.restRow.hidden = !many;
    this.grid.classList.toggle('pk-many', many);
    setText(this.rest, this.all ? 'Show only those that work' : hidden.length === 0 ? 'Show all' : `and ${restOf(hidden)}`);
    this.rest.setAttribute('aria-expanded', String(this.all));
    if (changed) this.setTabStop();
    if (changed && this.lanes.size > before) this.keepHeight();
  }

  /** The table gets higher, never lower, so that what is below it stays in its place. */
  private keepHeight(): void {
    const { offsetHeight } = this.scroller;
    if (offsetHeight <= this.height) return;
    this.height = offsetHeight;
    this.scroller.style.minHeight = `${offsetHeight}px`;
  }

  private showSummary(run: Run, lanes: readonly Lane[]): void {
    const number = (state: Lane['state']): number => lanes.filter((lane) => lane.state === state).length;
    const parts = (
      [
        ['ask', 'needs approval', 'need approval'],
        ['run', 'working', 'working'],
        ['wait', 'waiting', 'waiting'],
        ['idle', 'idle', 'idle'],
        ['bad', 'failed', 'failed'],
        ['stop', 'stopped', 'stopped'],
      ] as const
    ).flatMap(([state, one, many]) => {
      const found = number(state);
      return found === 0 ? [] : [`${found} ${found === 1 ? one : many}`];
    });
    const { counted, input, output, cost, estimated } = spentOf(run);
    setText(this.agents, `${lanes.length} ${lanes.length === 1 ? 'agent' : 'agents'}`);
    setText(this.summary, parts.join(', '));
    setText(this.tokens, counted ? count(input + output) : '');
    setText(this.cost, cost === null ? '' : `${estimated ? '≥ ' : ''}${dollars(cost)}`);
  }

  /** Open the row of an agent, or close it. One is open at a time. */
  private toggle(id: string): void {
    const view = this.lanes.get(id);
    if (view === undefined || this.run === null) return;
    const close = view.details !== null;
    for (const other of this.lanes.values()) {
      if (other.details === null) continue;
      this.keepDraft(other);
      other.close();
    }
    if (close) return;
    view.open(this.send);
    view.details?.showRefusal('', this.unsent.get(id) ?? '');
    view.details?.show(itemsOfAgent(this.run, id), this.now);
  }

  private keepDraft(view: LaneView): void {
    if (view.details === null) return;
    const { draft } = view.details;
    if (draft === '') this.unsent.delete(view.id);
    else this.unsent.set(view.id, draft);
  }

  /** The rows are one tab stop; the arrow keys move between them. */
  private setTabStop(): void {
    const stop = this.lanes.get(this.focused) ?? [...this.lanes.values()][0];
    for (const view of this.lanes.values()) view.row.tabIndex = view === stop ? 0 : -1;
  }

  /** What the arrow keys move between. */
  private get stops(): readonly HTMLElement[] {
    const rows = [...this.grid.querySelectorAll<HTMLElement>('.pk-lane')];
    return this.restRow.hidden ? rows : [...rows, this.rest];
  }

  /** Open or close the focused row; null does either. Returns whether there is one. */
  private set({ target }: Event, isOpen: boolean | null): boolean {
    const view = this.lanes.get((target as HTMLElement).dataset['agent'] ?? '');
    if (view === undefined) return false;
    if (isOpen === null || isOpen !== (view.details !== null)) this.toggle(view.id);
    return true;
  }
}

/** Return from what an agent's row has opened. Returns whether the focus was there. */
function leaveInset({ target }: Event): boolean {
  const inset = (target as HTMLElement).closest<HTMLElement>('.pk-inset');
  (inset?.previousElementSibling as HTMLElement | null | undefined)?.focus();
  return inset !== null;
}
