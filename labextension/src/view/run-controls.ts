/** The bar above the transcript of a run, and the controls below it: queue, the field for steering, and Stop. */

import type { Command } from '../model/connection.ts';
import { h, setText, textField, withCode } from './dom.ts';
import { elapsed } from '../model/format.ts';
import { icon } from './icons.ts';
import { keyName, onKeys } from './keys.ts';
import { RunBar } from './run-bar.ts';
import type { Announcer } from './announcer.ts';
import type { QueuedPrompt } from '../model/agent-state.ts';
import { approvalsOf, figuresOf, isTeam, modelNameOf, namesOf, queueOf, returnedOf, statusOf, timesOf } from '../model/run.ts';
import type { Run } from '../model/run.ts';
import { leaderOf, sharedModelOf } from '../model/team.ts';
import { copyButton } from './summary-bar.ts';

type Send = (command: Command) => void;

const STEER = 'Steer: the agent reads it before its next step';
const NO_CLICKS = 'This kernel handles no clicks while the cell runs: to stop, interrupt the kernel (■).';
const INSTEAD = 'Or say what to do instead';

export class RunControls {
  readonly element: HTMLElement;
  readonly bar = new RunBar('pk-status');
  private readonly queue: QueueView;
  private readonly refusal = h('section', { class: 'pk-note', 'data-kind': 'bad', hidden: '' });
  private readonly box: HTMLTextAreaElement;
  private readonly stop = h('span', {}, 'Stop');
  /** How many prompts were put back into the field. */
  private returned = 0;
  private readonly agent: string;
  /** Texts that can no longer be sent. */
  private readonly unsent = h('div', { hidden: '' });

  /** Without `clicks` nothing that is sent arrives before the cell ends, so that there is nothing to press. */
  constructor(agent: string, send: Send, clicks: boolean) {
    this.agent = agent;
    this.queue = new QueueView(send);
    const queue = h('button', { class: 'pk-btn pk-wide', type: 'button', title: 'Alt+Enter' }, 'Queue');
    const stop = h('button', { class: 'pk-btn pk-stop', type: 'button', title: keyName('run', 'stop') }, icon('square'), this.stop);
    queue.addEventListener('click', () => this.submit(send, 'queue'));
    stop.addEventListener('click', () => send({ type: 'stop' }));
    this.box = textField('Steer or queue', (event) => this.submit(send, event.altKey ? 'queue' : 'steer'));
    this.element = h(
      'div',
      { class: 'pk-dock' },
      this.queue.element,
      this.refusal,
      this.unsent,
      clicks ? h('div', { class: 'pk-steer' }, this.box, queue, stop) : h('p', { class: 'pk-facts pk-unheard' }, NO_CLICKS),
    );
  }

  update(run: Run, ended: boolean): void {
    this.takeBack(returnedOf(run));
    if (ended !== !this.unsent.hidden) {
      this.unsent.hidden = !ended;
      this.unsent.replaceChildren(...(ended ? unsentTexts([...queueOf(run).map(({ text }) => text), this.draft]) : []));
    }
    const approvals = approvalsOf(run).length;
    const team = isTeam(run);
    setText(this.stop, team ? 'Stop all' : 'Stop');
    const { tokens, cost } = figuresOf(run);
    const state = ended ? 'stop' : approvals > 0 ? 'ask' : 'run';
    this.bar.setMark(state, ({ stop: 'square', ask: 'diamond', run: 'ring' } as const)[state]);
    const placeholder = approvals > 0 ? INSTEAD : STEER;
    if (this.box.placeholder !== placeholder) this.box.placeholder = placeholder;
    this.queue.update(queueOf(run), namesOf(run));
    this.bar.show({
      state: statusOf(run),
      attention: approvals === 0 ? '' : `${approvals} ${approvals === 1 ? 'approval' : 'approvals'}`,
      agent: this.agent,
      tokens,
      cost,
      model: team ? (sharedModelOf(run) ?? '') : modelNameOf(run, leaderOf(run)),
    });
  }

  tick(run: Run, now: number): void {
    const { since, until } = timesOf(run);
    this.bar.show({ time: since === null ? '' : elapsed((until ?? now) - since) });
  }

  /** The text that the user has not sent. */
  get draft(): string {
    return this.box.value.trim();
  }

  /** Show why a command failed, and put its text back into the field; an empty reason hides the message. */
  showRefusal(reason: string, text = ''): void {
    this.refusal.hidden = reason === '';
    this.refusal.replaceChildren(icon('cross'), h('p', {}, ...withCode(reason)));
    if (this.box.value === '') this.box.value = text;
  }

  /** Put prompts that were not sent into the field, above what the user is writing. */
  private takeBack(returned: readonly string[]): void {
    const texts = returned.slice(this.returned);
    this.returned = returned.length;
    if (texts.length > 0) this.box.value = [...texts, this.draft].filter((text) => text !== '').join('\n\n');
  }

  private submit(send: Send, type: 'steer' | 'queue'): void {
    const text = this.box.value.trim();
    if (text === '') return;
    this.box.value = '';
    send({ type, text });
  }
}

/** Show texts that were not sent, so that the user does not lose them. With an announcer, each can be copied. */
export function unsentTexts(texts: readonly string[], announcer?: Announcer): HTMLElement[] {
  const written = texts.filter((text) => text !== '');
  return written.flatMap((text) => {
    const line = h('p', { class: 'pk-facts pk-unsent' }, h('b', {}, 'Not sent: '), text);
    return announcer === undefined ? [line] : [line, h('p', { class: 'pk-facts' }, copyButton(text, announcer))];
  });
}

/** The queued prompts, each on a line. */
class QueueView {
  readonly element = h('ol', { class: 'pk-queue', 'aria-label': 'Queue', hidden: '' });
  private readonly rows = new Map<string, QueueRow>();
  private readonly send: Send;

  constructor(send: Send) {
    this.send = send;
  }

  update(queue: readonly QueuedPrompt[], names: ReadonlyMap<string, string>): void {
    for (const [id, row] of this.rows) {
      if (queue.some((prompt) => prompt.id === id)) continue;
      row.element.remove();
      this.rows.delete(id);
    }
    for (const prompt of queue) {
      const name = names.get(prompt.agent) ?? '';
      const known = this.rows.get(prompt.id);
      if (known !== undefined) {
        known.update(prompt, name);
        continue;
      }
      const row = new QueueRow(prompt, name, this.send);
      this.rows.set(prompt.id, row);
      this.element.append(row.element);
    }
    this.element.hidden = queue.length === 0;
  }
}

class QueueRow {
  readonly element = h('li');
  private readonly text = h('span');
  private readonly edit = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Edit');
  private prompt: QueuedPrompt;

  constructor(prompt: QueuedPrompt, agent: string, send: Send) {
    this.prompt = prompt;
    const remove = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'icon', 'aria-label': 'Remove from queue' });
    remove.append(icon('cross'));
    remove.addEventListener('click', () => send({ type: 'unqueue', id: prompt.id, agent_id: prompt.agent }));
    this.edit.addEventListener('click', () => this.open(send));
    const mark = h('span', { class: 'pk-mark' }, icon('clock'));
    this.element.append(mark, h('b', {}, prompt.steer ? 'Steers' : 'Queued'), this.text, this.edit, remove);
    this.update(prompt, agent);
  }

  update(prompt: QueuedPrompt, agent: string): void {
    this.prompt = prompt;
    setText(this.text, `${agent === '' ? '' : `${agent}: `}${prompt.text.replace(/\s+/g, ' ')}`);
    this.edit.hidden = !prompt.complete;
  }

  /** Edit the text in place: Enter saves it, Escape and leaving the field do not. */
  private open(send: Send): void {
    const box = textField('Queued prompt', () => {
      const text = box.value.trim();
      if (text !== '' && text !== this.prompt.text) send({ type: 'edit', id: this.prompt.id, text, agent_id: this.prompt.agent });
      this.edit.focus();
    });
    box.value = this.prompt.text;
    box.addEventListener('blur', () => box.replaceWith(this.text));
    onKeys(box, 'queued', { leave: () => this.edit.focus() });
    this.text.replaceWith(box);
    box.focus();
    box.select();
  }
}
