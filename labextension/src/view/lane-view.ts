/** One agent of a team: a row that opens to its transcript, with a field to steer it and a button to stop it. */

import type { Command } from '../model/connection.ts';
import { h, setText, textField, withCode } from './dom.ts';
import { count, dollars } from '../model/format.ts';
import { icon } from './icons.ts';
import type { Shape } from './icons.ts';
import type { Item } from '../model/agent-state.ts';
import { FollowedWindow } from './followed-window.ts';
import type { Lane, LaneState } from '../model/team.ts';
import { TranscriptView } from './transcript.ts';

const GLYPH: Record<LaneState, Shape> = {
  run: 'ring',
  ask: 'diamond',
  wait: 'clock',
  idle: 'dot',
  bad: 'cross',
  stop: 'square',
};

export class LaneView {
  readonly row: HTMLElement;
  /** What is below the row while it is open; null while it is closed. */
  details: LaneDetails | null = null;
  private readonly mark = h('span', { class: 'pk-mark', role: 'gridcell' });
  private readonly name = h('b');
  private readonly type = h('small');
  private readonly words = h('b');
  private readonly line = h('span');
  private readonly tokens = h('span', { class: 'pk-fig pk-mute pk-wide', role: 'gridcell' });
  private readonly cost = h('span', { class: 'pk-fig', role: 'gridcell' });
  private readonly model = h('span', { class: 'pk-model pk-wide', role: 'gridcell' });
  private readonly button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'icon', tabindex: '-1' });
  private lane: Lane;

  constructor(lane: Lane, toggle: () => void) {
    this.lane = lane;
    this.button.append(icon('chevron', 'pk-chev'));
    this.row = h(
      'div',
      { class: 'pk-lane', role: 'row', tabindex: '-1', 'aria-level': lane.leads ? '1' : '2', 'data-agent': lane.id },
      this.mark,
      h('span', { class: lane.leads ? 'pk-who' : 'pk-who pk-sub', role: 'gridcell' }, this.name, ' ', this.type),
      h('span', { class: 'pk-doing', role: 'gridcell' }, this.words, ' ', this.line),
      this.tokens,
      this.cost,
      h('span', { role: 'gridcell' }, this.button),
      this.model,
    );
    this.row.addEventListener('click', () => {
      if (document.getSelection()?.isCollapsed !== false) toggle();
    });
    this.showOpen();
    this.update(lane);
  }

  get id(): string {
    return this.lane.id;
  }

  get contains(): boolean {
    const focused = document.activeElement;
    return this.row.contains(focused) || this.details?.element.contains(focused) === true;
  }

  update(lane: Lane): void {
    this.lane = lane;
    if (this.mark.dataset['state'] !== lane.state) {
      this.mark.dataset['state'] = lane.state;
      this.mark.replaceChildren(icon(GLYPH[lane.state]));
    }
    setText(this.name, lane.name);
    const type = lane.type === lane.name || lane.type === lane.role ? '' : lane.type;
    setText(this.type, [lane.role, type].filter((word) => word !== '').join(' · '));
    setText(this.words, lane.words);
    setText(this.line, lane.line);
    const { counted, input, output, cost, estimated } = lane.spent;
    setText(this.tokens, counted ? count(input + output) : '');
    setText(this.cost, cost === null ? '' : `${estimated ? '≥ ' : ''}${dollars(cost)}`);
    setText(this.model, lane.model);
    this.details?.update(lane);
  }

  /** Show what is below the row. */
  open(send: (command: Command) => void): void {
    this.details = new LaneDetails(this.lane, send);
    this.row.after(this.details.element);
    this.showOpen();
  }

  close(): void {
    const hadFocus = this.details?.element.contains(document.activeElement) === true;
    this.details?.dispose();
    this.details = null;
    this.showOpen();
    if (hadFocus) this.row.focus({ preventScroll: true });
  }

  remove(): void {
    this.close();
    this.row.remove();
  }

  private showOpen(): void {
    const open = String(this.details !== null);
    this.row.setAttribute('aria-expanded', open);
    this.button.setAttribute('aria-expanded', open);
    this.button.setAttribute('aria-label', `${this.details === null ? 'Open' : 'Close'} ${this.lane.name}`);
  }
}

/** The transcript of one agent, and how to stop and steer it. */
export class LaneDetails {
  readonly element: HTMLElement;
  private readonly transcript = new TranscriptView();
  private readonly window: FollowedWindow;
  private readonly refusal = h('section', { class: 'pk-note', 'data-kind': 'bad', hidden: '' });
  private readonly box: HTMLTextAreaElement;
  private readonly stop: HTMLElement;
  private readonly empty = h('p', { class: 'pk-facts' }, 'It has not written anything in this run.');
  private lane: Lane;

  constructor(lane: Lane, send: (command: Command) => void) {
    this.lane = lane;
    this.stop = h('button', { class: 'pk-btn pk-stop', type: 'button' }, icon('square'), `Stop ${lane.name}`);
    this.stop.addEventListener('click', () => {
      if (this.lane.busy) send({ type: 'stop', agent_id: lane.id });
    });
    this.box = textField(`Steer ${lane.name}`, () => {
      const text = this.box.value.trim();
      if (text === '') return;
      this.showRefusal('');
      this.box.value = '';
      send({ type: 'steer', text, agent_id: lane.id });
    });
    this.window = new FollowedWindow(this.transcript.element, `Transcript of ${lane.name}`);
    this.element = h(
      'div',
      { class: 'pk-inset', role: 'row' },
      h(
        'div',
        { role: 'gridcell' },
        ...[this.empty, this.window.element, this.window.latest, this.refusal],
        h('div', { class: 'pk-steer' }, this.box, this.stop),
      ),
    );
    this.update(lane);
  }

  get id(): string {
    return this.lane.id;
  }

  update(lane: Lane): void {
    this.lane = lane;
    this.stop.setAttribute('aria-disabled', String(!lane.busy));
    const placeholder = lane.busy ? `Steer: ${lane.name} reads it before its next step` : `${lane.name} is idle`;
    if (this.box.placeholder !== placeholder) this.box.placeholder = placeholder;
  }

  show(items: readonly Item[], now: number): void {
    this.empty.hidden = items.length > 0;
    this.window.element.hidden = items.length === 0;
    const changed = this.transcript.update(items);
    this.transcript.tick(now);
    if (changed) this.window.follow();
  }

  tick(now: number): void {
    this.transcript.tick(now);
  }

  /** Show why a command failed, and put its text back into the field; an empty reason hides the message. */
  showRefusal(reason: string, text = ''): void {
    this.refusal.hidden = reason === '';
    this.refusal.replaceChildren(icon('cross'), h('p', {}, ...withCode(reason)));
    if (this.box.value === '') this.box.value = text;
  }

  /** The text that the user has not sent. */
  get draft(): string {
    return this.box.value.trim();
  }

  dispose(): void {
    this.window.dispose();
    this.element.remove();
  }
}
