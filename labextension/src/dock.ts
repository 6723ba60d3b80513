/** What stands under the window of a run: what waits, what goes on, and where one speaks to it. */

import type { Outgoing } from './channel.ts';
import { h, say, sentence, textField } from './dom.ts';
import { count, dollars, elapsed } from './figures.ts';
import { icon } from './icons.ts';
import { statusOf } from './model.ts';
import type { Run, Waiting } from './model.ts';

type Send = (wish: Outgoing) => void;

const STEER = 'Steer: the agent reads it before its next step';
const INSTEAD = 'Or say what to do instead';

export class Dock {
  readonly element: HTMLElement;
  private readonly queue: QueueView;
  private readonly refusal = h('section', { class: 'pk-note', 'data-kind': 'bad', hidden: '' });
  private readonly mark = h('span', { class: 'pk-mark' });
  private readonly status = h('strong');
  private readonly step = h('span', { class: 'pk-sep pk-wide' });
  private readonly time = h('span', { class: 'pk-sep' });
  private readonly input = h('span', { class: 'pk-num pk-wide' });
  private readonly output = h('span', { class: 'pk-num pk-wide' });
  private readonly cost = h('b', { class: 'pk-num' });
  private readonly box: HTMLTextAreaElement;
  /** What will not be sent any more. */
  private readonly left = h('div', { hidden: '' });

  constructor(send: Send) {
    this.queue = new QueueView(send);
    const queue = h('button', { class: 'pk-btn pk-wide', type: 'button', title: 'Alt+Enter' }, 'Queue');
    const stop = h('button', { class: 'pk-btn pk-stop', type: 'button', title: 'Ctrl+.' }, icon('square'), 'Stop');
    queue.addEventListener('click', () => this.speak(send, 'queue'));
    stop.addEventListener('click', () => send({ type: 'stop' }));
    this.box = textField('Steer or queue', (event) => this.speak(send, event.altKey ? 'queue' : 'steer'));
    this.element = h(
      'div',
      { class: 'pk-dock' },
      this.queue.element,
      this.refusal,
      h(
        'div',
        { class: 'pk-status' },
        this.mark,
        h('span', { class: 'pk-now' }, this.status, this.step, this.time),
        h('span', { class: 'pk-figs' }, this.input, this.output, this.cost),
      ),
      this.left,
      h('div', { class: 'pk-steer' }, this.box, queue, stop),
    );
  }

  update(run: Run, ended: boolean): void {
    if (ended !== !this.left.hidden) {
      this.left.hidden = !ended;
      this.left.replaceChildren(...(ended ? unsent([...run.queue.map(({ text }) => text), this.draft]) : []));
    }
    const asked = run.asks.length;
    const state = ended ? 'stop' : asked > 0 ? 'ask' : 'run';
    if (this.mark.dataset['state'] !== state) {
      this.mark.dataset['state'] = state;
      this.mark.replaceChildren(icon(({ stop: 'square', ask: 'diamond', run: 'ring' } as const)[state]));
      this.box.placeholder = asked > 0 ? INSTEAD : STEER;
    }
    this.queue.update(run.queue);
    say(this.status, statusOf(run));
    this.step.classList.toggle('pk-wide', asked === 0);
    say(this.step, asked > 0 ? `${asked} ${asked === 1 ? 'approval' : 'approvals'}` : run.step === 0 ? '' : `step ${run.step}`);
    say(this.input, run.counted ? `${count(run.input)} in` : '');
    say(this.output, run.counted ? `${count(run.output)} out` : '');
    say(this.cost, run.cost === null ? '' : dollars(run.cost));
  }

  tick(run: Run, now: number): void {
    say(this.time, run.since === null ? '' : elapsed((run.until ?? now) - run.since));
  }

  /** What somebody was still writing. */
  get draft(): string {
    return this.box.value.trim();
  }

  /** Say why something could not be done, and give back the text of it; an empty reason takes the sentence away. */
  refuse(reason: string, text = ''): void {
    this.refusal.hidden = reason === '';
    this.refusal.replaceChildren(icon('cross'), h('p', {}, ...sentence(reason)));
    if (this.box.value === '') this.box.value = text;
  }

  private speak(send: Send, type: 'steer' | 'queue'): void {
    const text = this.box.value.trim();
    if (text === '') return;
    this.box.value = '';
    send({ type, text });
  }
}

/** Texts that nobody will read, so that they are not lost to who wrote them. */
export function unsent(texts: readonly string[]): HTMLElement[] {
  const left = texts.filter((text) => text !== '');
  return left.map((text) => h('p', { class: 'pk-facts pk-unsent' }, h('b', {}, 'Not sent: '), text));
}

/** The prompts that wait, each on a line. */
class QueueView {
  readonly element = h('ol', { class: 'pk-queue', 'aria-label': 'Queue', hidden: '' });
  private readonly rows = new Map<string, QueueRow>();
  private readonly send: Send;

  constructor(send: Send) {
    this.send = send;
  }

  update(queue: readonly Waiting[]): void {
    for (const [id, row] of this.rows) {
      if (queue.some((waiting) => waiting.id === id)) continue;
      row.element.remove();
      this.rows.delete(id);
    }
    for (const waiting of queue) {
      const known = this.rows.get(waiting.id);
      if (known !== undefined) {
        known.update(waiting);
        continue;
      }
      const row = new QueueRow(waiting, this.send);
      this.rows.set(waiting.id, row);
      this.element.append(row.element);
    }
    this.element.hidden = queue.length === 0;
  }
}

class QueueRow {
  readonly element = h('li');
  private readonly text = h('span');
  private readonly edit = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Edit');
  private waiting: Waiting;

  constructor(waiting: Waiting, send: Send) {
    this.waiting = waiting;
    const remove = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'icon', 'aria-label': 'Remove from queue' });
    remove.append(icon('cross'));
    remove.addEventListener('click', () => send({ type: 'unqueue', id: waiting.id }));
    this.edit.addEventListener('click', () => this.open(send));
    const mark = h('span', { class: 'pk-mark' }, icon('clock'));
    this.element.append(mark, h('b', {}, waiting.steer ? 'Steers' : 'Queued'), this.text, this.edit, remove);
    this.update(waiting);
  }

  update(waiting: Waiting): void {
    this.waiting = waiting;
    say(this.text, waiting.text.replace(/\s+/g, ' '));
    this.edit.hidden = !waiting.whole;
  }

  /** Edit the text where it stands: Enter keeps it, Escape and leaving it do not. */
  private open(send: Send): void {
    const box = textField('Queued prompt', () => {
      const text = box.value.trim();
      if (text !== '' && text !== this.waiting.text) send({ type: 'edit', id: this.waiting.id, text });
      this.edit.focus();
    });
    box.value = this.waiting.text;
    box.addEventListener('blur', () => box.replaceWith(this.text));
    box.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      this.edit.focus();
    });
    this.text.replaceWith(box);
    box.focus();
    box.select();
  }
}
