/**
 * Makes a saved output look like the live view: marks, durations, colours, code buttons.
 *
 * The file contains plain HTML (`planck_nb/rendering/block_html.py`). Only its elements in the page are changed, so
 * the notebook is saved as before. Tables in results already look alike, and stay.
 */

import type { Announcer } from './announcer.ts';
import { addCodeTools } from './code-tools.ts';
import { codeBlock } from '../text/markdown.ts';
import { h } from './dom.ts';
import { duration, elapsed, lastSentence } from '../model/format.ts';
import { icon } from './icons.ts';
import type { Call, Item, Thinking } from '../model/agent-state.ts';
import type { NotebookCell } from './notebook-cell.ts';
import { diffBox, textBox, watchOverflow } from './text-boxes.ts';

/** States by their words in the output. */
const STATES = [
  ['failed', 'bad'],
  ['denied', 'deny'],
  ['stopped', 'stop'],
  ['not finished', 'stop'],
] as const;

type Line = Call | Thinking;

/**
 * Change a saved output's elements.
 *
 * @param root The output's element.
 * @param items The live view's items, for durations; empty after a reload.
 * @param note The reason for an unusual end.
 * @param cell The cell, below which code can be inserted.
 * @param alone Whether no view is above, so that the heading and the ending stay.
 */
export function decorate(
  root: HTMLElement,
  items: readonly Item[],
  note: HTMLElement | null,
  cell: NotebookCell,
  announcer: Announcer,
  alone = false,
): void {
  if (root.classList.contains('pk-saved')) return;
  root.classList.add('pk', 'pk-saved');
  root.removeAttribute('style');
  root.closest('.jp-RenderedHTMLCommon')?.classList.remove('jp-RenderedHTMLCommon'); // its rules are for unstyled HTML
  const lines = items.filter((item): item is Line => item.kind === 'call' || item.kind === 'thinking');
  const [header, ...parts] = [...root.children] as HTMLElement[];
  if (alone) header?.classList.add('pk-facts');
  else header?.remove(); // the bar above says the same
  const flow = h('div', { class: 'pk-flow' });
  if (alone && header !== undefined) header.after(flow);
  else root.prepend(flow);
  for (const part of parts) {
    if (part.tagName === 'STYLE') continue;
    if (isEnding(part) && !alone) part.remove(); // so does the note below
    else flow.append(decorated(part, lines));
  }
  if (note !== null) flow.append(note);
  addCodeTools(root, announcer, cell);
  watchOverflow(root);
}

function decorated(part: HTMLElement, lines: Line[]): HTMLElement {
  switch (part.tagName) {
    case 'DETAILS':
      return isThinking(part) ? thinkingLine(part, lines) : callLine(part, lines);
    case 'BLOCKQUOTE': {
      const said = h('div', { class: 'pk-said', dir: 'auto' });
      said.append(...part.childNodes);
      return said;
    }
    case 'P':
      if (part.querySelector('img') === null) part.className = 'pk-facts';
      else part.className = 'pk-figure';
      for (const image of part.querySelectorAll('img')) image.className = 'pk-image';
      part.removeAttribute('style');
      return part;
    default:
      return prose(part);
  }
}

/** Replace the inline styles in an answer by classes. */
function prose(part: HTMLElement): HTMLElement {
  part.className = 'pk-prose';
  for (const element of [part, ...part.querySelectorAll<HTMLElement>('[style]')]) {
    if (element.closest('pre, mjx-container, svg, math') !== null) continue;
    const { textAlign, listStyleType } = element.style;
    element.removeAttribute('style');
    if (element.matches('th, td') && textAlign !== 'left') element.style.textAlign = textAlign;
    if (listStyleType === 'none') element.classList.add('pk-task');
  }
  for (const table of part.querySelectorAll('table')) {
    table.className = 'pk-table';
    const scroll = h('div', { class: 'pk-scroll', 'data-name': 'Table' });
    table.replaceWith(scroll);
    scroll.append(table);
  }
  for (const section of part.querySelectorAll('section')) section.className = 'pk-footnotes';
  for (const pre of part.querySelectorAll('pre')) {
    const language = /(?:^|\s)language-(\S+)/.exec(pre.querySelector('code')?.className ?? '')?.[1] ?? '';
    const template = document.createElement('template');
    template.innerHTML = codeBlock(pre.textContent, language);
    pre.replaceWith(template.content);
  }
  return part;
}

function isEnding(part: HTMLElement): boolean {
  return part.tagName === 'DIV' && part.style.borderLeftWidth !== '';
}

function isThinking(details: HTMLElement): boolean {
  return details.querySelector(':scope > summary > code') === null && details.querySelector(':scope > summary > b') === null;
}

function thinkingLine(details: HTMLElement, lines: Line[]): HTMLElement {
  const [summary, body] = [...details.children] as [HTMLElement, HTMLElement];
  const at = lines.findIndex(({ kind }) => kind === 'thinking');
  const live = at < 0 ? undefined : lines.splice(at, 1)[0];
  const seconds = live?.until == null ? 0 : live.until - live.since;
  const text = body.textContent;
  const what = h('span', { class: 'pk-what' }, h('b', {}, `Thought${seconds < 1 ? '' : ` ${elapsed(seconds)}`}`), h('span', {}, lastSentence(text)));
  rewrite(summary, h('span', { class: 'pk-mark pk-dot' }), what, h('span'));
  body.className = 'pk-body';
  body.removeAttribute('style');
  details.className = 'pk-think';
  details.removeAttribute('style');
  details.dataset['state'] = 'done';
  return details;
}

/** Rewrite the line for a call or for a group. */
function callLine(details: HTMLElement, lines: Line[]): HTMLElement {
  const summary = details.querySelector<HTMLElement>(':scope > summary');
  const title = summary?.querySelector('code, b');
  if (summary == null || title == null) return details;
  const name = summary.querySelector('b')?.textContent ?? '';
  const key = title.tagName === 'CODE' ? title.textContent.slice(name.length).trim() : '';
  const words = [...summary.querySelectorAll(':scope > span')].map((span) => span.textContent.trim()).join(' · ');
  const state = STATES.find(([word]) => words.includes(word))?.[1] ?? 'done';
  const live = takeCall(lines, name);
  const time = live?.until == null || /\d (?:s|min)$/.test(words) ? '' : duration(live.until - live.since);
  const isQuiet = title.tagName === 'CODE' && summary.querySelector('span b') === null;
  const quiet = isQuiet ? [h('span', { class: 'pk-sr' }, 'done,'), ' '] : [];
  const word = h(state === 'done' ? 'span' : 'b', {}, words);
  const meta = h('span', { class: 'pk-meta' }, ...quiet, word, h('span', { class: 'pk-num' }, `${words === '' ? '' : ' '}${time}`));
  const mark = icon(({ done: 'check', bad: 'cross', deny: 'cross', stop: 'square' } as const)[state]);
  const what = h('span', { class: 'pk-what' }, h('b', {}, name), h('span', {}, key));
  const body = h('div', { class: 'pk-body' });
  const inner = title.tagName === 'CODE' ? lines : []; // other agents have their own live transcripts
  for (const box of [...details.children].slice(1) as HTMLElement[]) {
    box.remove();
    body.append(box.querySelector(':scope > details') === null ? boxOf(box, body, state === 'bad') : group(box, inner));
  }
  rewrite(summary, h('span', { class: 'pk-mark' }, mark), what, meta);
  details.append(body);
  details.className = 'pk-tool';
  details.removeAttribute('style');
  details.dataset['state'] = state;
  return details;
}

/** Take the next live call with this name. */
function takeCall(lines: Line[], name: string): Line | undefined {
  const at = lines.findIndex((line) => line.kind === 'call' && line.name === name);
  return at < 0 ? undefined : lines.splice(at, 1)[0];
}

function group(box: HTMLElement, lines: Line[]): HTMLElement {
  const flow = h('div', { class: 'pk-flow' });
  for (const part of [...box.children] as HTMLElement[]) flow.append(decorated(part, lines));
  return flow;
}

/** Replace a box by its live form, with the name before it inside. */
function boxOf(box: HTMLElement, body: HTMLElement, isBad: boolean): HTMLElement {
  if (box.tagName === 'PRE') {
    const label = body.lastElementChild?.matches('p.pk-label') ? body.lastElementChild : null;
    label?.remove();
    if (box.querySelector(':scope > span') !== null) return diffBox({ text: '', lines: linesOfDiff(box) });
    const name = label?.textContent ?? '';
    return textBox(name, box.textContent, isBad && (name === '' || name === 'result') ? 'bad' : name === '' ? '' : 'code');
  }
  if (box.tagName === 'P' && box.querySelector('img') === null) {
    box.className = 'pk-label';
    box.removeAttribute('style');
  } else if (box.tagName === 'DIV') box.style.removeProperty('margin'); // a table or a drawing: the body has its edge
  return box;
}

function linesOfDiff(box: HTMLElement): (readonly [string, string])[] {
  return [...box.querySelectorAll(':scope > span')].map((span) => {
    const line = span.textContent.replace(/\n$/, '');
    return /^[−+ ] /.test(line) ? ([line.charAt(0) === '−' ? '-' : line.charAt(0), line.slice(2)] as const) : (['@', line] as const);
  });
}

function rewrite(summary: HTMLElement, ...parts: Node[]): void {
  summary.className = 'pk-line';
  summary.removeAttribute('style');
  summary.replaceChildren(...parts, icon('chevron', 'pk-chev'));
}
