/** The slim bar that a live view folds into. */

import { h } from './dom.ts';
import { duration } from './figures.ts';
import { icon } from './icons.ts';
import type { Voice } from './voice.ts';

export interface Summary {
  readonly outcome: 'done' | 'stopped' | 'failed';
  readonly seconds: number;
  readonly tokens: number;
  readonly cost: number | null;
  readonly model: string;
  readonly text: string;
}

export const OUTCOME = { done: 'Done', stopped: 'Stopped', failed: 'Failed' } as const;

const COPIED_MS = 2000;

export function bar(summary: Summary, voice: Voice): HTMLElement {
  const glyph = { done: 'check', stopped: 'square', failed: 'cross' } as const;
  // Tokens, cost and model stand in the first line of the transcript right below.
  const time = h('span', { class: 'pk-sep' }, duration(summary.seconds));
  const sum = h('span', { class: 'pk-sum' }, h('strong', {}, OUTCOME[summary.outcome]), time);
  const state = { done: 'done', stopped: 'stop', failed: 'bad' }[summary.outcome];
  const actions = h('span', { class: 'pk-acts' });
  if (summary.text !== '') actions.append(...copyButton(summary.text, voice));
  const mark = h('span', { class: 'pk-mark', 'data-state': state }, icon(glyph[summary.outcome]));
  return h('div', { class: 'pk-bar', role: 'group', 'aria-label': 'Run' }, mark, sum, actions);
}

function copyButton(text: string, voice: Voice): HTMLElement[] {
  const told = h('span', { class: 'pk-told' });
  const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Copy');
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(text).then(
      () => tell('Copied'),
      () => tell('The browser does not allow copying'),
    );
  });
  const tell = (outcome: string): void => {
    told.textContent = outcome;
    voice.sayNow(outcome);
    window.setTimeout(() => told.replaceChildren(), COPIED_MS);
  };
  return [told, button];
}
