/** The slim bar that replaces the live view of a run that is over. */

import type { Announcer } from './announcer.ts';
import { h } from './dom.ts';
import { duration } from './format.ts';
import { icon } from './icons.ts';
import type { NotebookCell } from './notebook-cell.ts';

export interface Summary {
  readonly outcome: keyof typeof OUTCOME;
  readonly seconds: number;
  readonly tokens: number;
  readonly cost: number | null;
  readonly model: string;
  readonly text: string;
}

export const OUTCOME = {
  done: 'Done',
  stopped: 'Stopped',
  failed: 'Failed',
  'cut off': 'Cut off',
  refused: 'Refused',
  'no answer': 'No answer',
} as const;

const COPIED_MS = 2000;

/** Actions do nothing for so long, because the bar comes to where other buttons were. */
const INERT_MS = 400;

export function summaryBar(summary: Summary, agent: string, cell: NotebookCell, announcer: Announcer): HTMLElement {
  const incomplete = { state: 'stop', shape: 'square' } as const;
  const { state, shape } = (
    {
      done: { state: 'done', shape: 'check' },
      stopped: incomplete,
      failed: { state: 'bad', shape: 'cross' },
      'cut off': incomplete,
      refused: incomplete,
      'no answer': incomplete,
    } as const
  )[summary.outcome];
  // Tokens, cost and model are in the first line of the transcript, which is right below.
  const time = h('span', { class: 'pk-sep' }, duration(summary.seconds));
  const status = h('span', { class: 'pk-sum' }, h('strong', {}, OUTCOME[summary.outcome]), time);
  const actions = h('span', { class: 'pk-acts' });
  const said = h('span', { class: 'pk-told' });
  const shown = performance.now();
  const add = (label: string, does: () => boolean, otherwise: string): void => {
    const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, label);
    button.addEventListener('click', () => {
      if (performance.now() - shown < INERT_MS) return;
      const outcome = does() ? '' : otherwise;
      said.textContent = outcome;
      if (outcome !== '') announcer.announceNow(outcome);
    });
    actions.append(button);
  };
  actions.append(said);
  const prompt = `%%planck ${/\s/.test(agent) ? JSON.stringify(agent) : agent}\n`;
  add('Reply', () => cell.insertBelow(prompt), `Write ${prompt.trim()} in a new cell`);
  add(summary.outcome === 'failed' ? 'Try again' : 'Re-run', () => cell.run(), 'Run the cell again');
  add('Edit', () => cell.edit(), 'Edit the cell and run it again');
  if (summary.outcome === 'failed') {
    add('Choose model', () => cell.insertBelow('%planck models'), '%planck models lists the models that can be used');
  }
  if (summary.text !== '') actions.append(...copyButton(summary.text, announcer));
  const mark = h('span', { class: 'pk-mark', 'data-state': state }, icon(shape));
  return h('div', { class: 'pk-bar', role: 'group', 'aria-label': 'Run' }, mark, status, actions);
}

export function copyButton(text: string, announcer: Announcer): HTMLElement[] {
  const outcome = h('span', { class: 'pk-told' });
  const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Copy');
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(text).then(
      () => show('Copied'),
      () => show('The browser does not allow copying'),
    );
  });
  const show = (text: string): void => {
    outcome.textContent = text;
    announcer.announceNow(text);
    window.setTimeout(() => outcome.replaceChildren(), COPIED_MS);
  };
  return [outcome, button];
}
