/** One line above a run: its state, and what it has taken. It is there from the first frame to the last. */

import { h, setText } from './dom.ts';
import { icon } from './icons.ts';
import type { Shape } from './icons.ts';

/** Facts about a run in words; empty ones are not shown. */
export interface RunFacts {
  readonly state: string;
  /** Approvals to decide, or failed calls. */
  readonly attention: string;
  readonly agent: string;
  readonly time: string;
  readonly tokens: string;
  readonly cost: string;
  readonly model: string;
}

export class RunBar {
  readonly element: HTMLElement;
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly state = h('strong');
  private readonly attention = h('span', { class: 'pk-sep' });
  private readonly agent = h('span', { class: 'pk-sep pk-wide' });
  private readonly time = h('span', { class: 'pk-sep pk-num' });
  private readonly tokens = h('span', { class: 'pk-sep pk-num pk-tokens pk-wide' });
  private readonly cost = h('span', { class: 'pk-sep pk-num pk-cost' });
  private readonly model = h('span', { class: 'pk-sep pk-model pk-wide' });

  /** With `actions` at its end. */
  constructor(className: string, ...actions: HTMLElement[]) {
    const facts = [this.state, this.attention, this.agent, this.time, this.tokens, this.cost, this.model];
    this.element = h('div', { class: className }, this.mark, h('span', { class: 'pk-now' }, ...facts), ...actions);
  }

  setMark(state: string, shape: Shape): void {
    if (this.mark.dataset['state'] === state) return;
    this.mark.dataset['state'] = state;
    this.mark.replaceChildren(icon(shape));
  }

  show(facts: Partial<RunFacts>): void {
    for (const [name, text] of Object.entries(facts)) setText(this[name as keyof RunFacts], text);
  }
}
