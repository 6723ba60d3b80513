/** The tasks that the agents of a team give each other, with the responses, each on a line that opens. */

import { h, setText } from './dom.ts';
import { icon } from './icons.ts';
import type { Exchange } from '../model/team.ts';
import { textBox } from './text-boxes.ts';

/** The number of tasks that are shown: the newest. */
const SHOWN = 100;

const LINE_STATE = { waiting: 'wait', working: 'run', answered: 'done', failed: 'bad' } as const;

export class ExchangesView {
  readonly element: HTMLElement;
  private readonly list = h('ol', { class: 'pk-wires' });
  private readonly box: HTMLElement;
  private readonly earlier = h('p', { class: 'pk-facts' });
  private readonly views = new Map<string, ExchangeView>();
  private height = 0;

  constructor() {
    const attributes = { class: 'pk-messages', role: 'region', 'aria-label': 'Tasks and answers', tabindex: '0' };
    this.box = h('div', attributes, this.earlier, this.list);
    this.element = h('section', { hidden: '' }, h('h3', { class: 'pk-h' }, 'Tasks and answers'), this.box);
  }

  update(exchanges: readonly Exchange[]): void {
    const shown = exchanges.slice(-SHOWN);
    const ids = new Set(shown.map(({ id }) => id));
    const added = shown.some(({ id }) => !this.views.has(id));
    const atEnd = added && this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 8;
    for (const [id, view] of this.views) {
      if (ids.has(id)) continue;
      view.element.remove();
      this.views.delete(id);
    }
    for (const exchange of shown) {
      const known = this.views.get(exchange.id);
      if (known !== undefined) {
        known.update(exchange);
        continue;
      }
      const view = new ExchangeView(exchange);
      this.views.set(exchange.id, view);
      this.list.append(view.element);
    }
    const earlier = exchanges.length - shown.length;
    this.earlier.hidden = earlier === 0;
    setText(this.earlier, `${earlier} earlier`);
    this.element.hidden = exchanges.length === 0;
    if (atEnd && !this.box.contains(document.activeElement)) this.box.scrollTop = this.box.scrollHeight;
    if (added && this.box.offsetHeight > this.height) {
      this.height = this.box.offsetHeight;
      this.box.style.minHeight = `${this.height}px`;
    }
  }
}

class ExchangeView {
  readonly element = h('li');
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly preview = h('span');
  private readonly state = h('b');
  private readonly body = h('div', { class: 'pk-body' });
  private readonly details: HTMLDetailsElement;
  private exchange: Exchange | null = null;

  constructor(exchange: Exchange) {
    const { from, to, kind, text } = exchange;
    const arrow = h('span', { 'aria-hidden': 'true' }, ' → ');
    const who = h('b', {}, from, arrow, h('span', { class: 'pk-sr' }, ' to '), to);
    const what = h('span', { class: 'pk-what' }, who, `${kind === 'ask' ? 'question' : 'task'}: `, this.preview);
    const line = h('summary', { class: 'pk-line' }, this.mark, what, h('span', { class: 'pk-meta' }, this.state), icon('chevron', 'pk-chev'));
    this.details = h('details', { class: 'pk-tool' }, line, this.body);
    this.element.append(this.details);
    setText(this.preview, text.replace(/\s+/g, ' '));
    this.update(exchange);
  }

  update(exchange: Exchange): void {
    const before = this.exchange;
    this.exchange = exchange;
    const { state, responses, to, text } = exchange;
    if (before?.state === state && before.responses.length === responses.length) return;
    this.details.dataset['state'] = LINE_STATE[state];
    const shape = { waiting: 'clock', working: 'ring', answered: 'check', failed: 'cross' } as const;
    this.mark.replaceChildren(icon(shape[state]));
    setText(this.state, state);
    const answers = responses.map((response) => textBox(`${to} answered`, response.text, response.failed ? 'bad' : ''));
    this.body.replaceChildren(textBox('task', text, ''), ...answers);
  }
}
