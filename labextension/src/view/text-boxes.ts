/** Boxes for code, output and arguments. They contain plain text only. */

import { h, setText } from './dom.ts';

/** The number of lines of output that are shown; a button shows those before them. */
const TAIL_LINES = 10;

export type BoxKind = '' | 'code' | 'bad';

export function textBox(label: string, text: string, kind: BoxKind): HTMLElement {
  const pre = h('pre', { class: 'pk-well', 'data-kind': kind, 'data-name': label || 'result' });
  if (label !== '') pre.append(h('span', { class: 'pk-label' }, label));
  pre.append(text);
  return pre;
}

export interface Diff {
  /** The text before the diff. */
  readonly text: string;
  /** Pairs of mark and line; `@` is the mark of headings. */
  readonly lines: readonly (readonly [mark: string, line: string])[];
}

/** The diff in unified format that a result ends with, null if there is none. `diff_lines.py` does the same. */
export function diffIn(result: string): Diff | null {
  const headers = /^--- [^\n]*\n\+\+\+ [^\n]*\n(?=@@ )/m.exec(result);
  if (headers === null) return null;
  const rows = result.slice(headers.index + headers[0].length).replace(/\n+$/, '').split('\n');
  const lines = rows.map((row) => (/^[ +-]/.test(row) ? ([row.charAt(0), row.slice(1)] as const) : (['@', row] as const)));
  return { text: result.slice(0, headers.index).trim(), lines };
}

/** Arguments whose text is in the diff. */
export const DIFFED_ARGUMENTS = new Set('content old_string new_string old_text new_text old_str new_str'.split(' '));

export function diffBox({ lines }: Diff): HTMLElement {
  const box = h('div', { class: 'pk-diff', role: 'group', 'aria-label': 'Change', 'data-name': 'change' });
  let numbers: Record<string, number> | null = null;
  for (const [mark, line] of lines) {
    const hunk = mark === '@' ? /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line) : null;
    if (hunk !== null) {
      numbers = { '-': Number(hunk[1]), '+': Number(hunk[2]) };
      box.append(h('div', { class: 'pk-hunk' }, `line ${hunk[2]}`));
    } else if (mark === '@') box.append(h('div', { class: 'pk-hunk' }, line));
    else {
      const kind = mark === '+' ? 'pk-add' : mark === '-' ? 'pk-del' : '';
      const number = numbers === null ? '' : String(numbers[mark === '-' ? '-' : '+']);
      if (numbers !== null) for (const side of mark === ' ' ? '-+' : mark) numbers[side] = (numbers[side] ?? 0) + 1;
      box.append(h('div', { class: kind }, h('i', {}, number), h('u', {}, mark === '-' ? '−' : mark), h('span', {}, line)));
    }
  }
  box.classList.toggle('pk-numbered', numbers !== null);
  return box;
}

/** A box that shows the end of a text, and all of it after a click. */
export function tailBox(label: string, text: string, kind: BoxKind): HTMLElement {
  const lines = text.trimEnd().split('\n');
  if (lines.length <= TAIL_LINES + 1) return textBox(label, text, kind);
  const pre = textBox(label, lines.slice(-TAIL_LINES).join('\n'), kind);
  const button = h('button', { class: 'pk-more', type: 'button' }, earlierLines(lines.length - TAIL_LINES));
  button.addEventListener('click', () => {
    pre.replaceChildren(...textBox(label, text, kind).childNodes);
    pre.tabIndex = 0;
    pre.focus();
  });
  pre.insertBefore(button, pre.lastChild);
  return pre;
}

function earlierLines(count: number): string {
  return `${count.toLocaleString('en')} earlier ${count === 1 ? 'line' : 'lines'}\n`;
}

/** The last lines of a running tool's output. */
export class OutputBox {
  readonly element: HTMLElement;
  private readonly more = h('span', { class: 'pk-more' });
  private readonly text = h('span');

  constructor() {
    this.element = h('pre', { class: 'pk-well', 'data-name': 'output' }, this.more, this.text, h('span', { class: 'pk-caret' }));
  }

  show(text: string, earlier: number): void {
    setText(this.more, earlier === 0 ? '' : earlierLines(earlier));
    setText(this.text, text);
  }
}

/** The longest argument while the model is writing it. */
export class ArgumentBox {
  readonly element: HTMLElement;
  private readonly label = h('span', { class: 'pk-label' });
  private readonly text = document.createTextNode('');

  constructor() {
    this.element = h('pre', { class: 'pk-well', 'data-kind': 'code' }, this.label, this.text, h('span', { class: 'pk-caret' }));
  }

  show(name: string, text: string): void {
    setText(this.label, name);
    if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.length));
    else this.text.data = text;
    this.element.scrollTop = this.element.scrollHeight;
  }
}

const boxesOf = new ResizeObserver((entries) => {
  for (const { target } of entries) labelOverflowing(target as HTMLElement);
});

/** Keep the boxes in an element that scroll reachable by keyboard, which requires a name. */
export function watchOverflow(body: HTMLElement): void {
  boxesOf.observe(body);
}

function labelOverflowing(body: HTMLElement): void {
  for (const box of body.querySelectorAll<HTMLElement>('.pk-well, .pk-diff, .pk-scroll')) {
    if (box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight) continue;
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', box.dataset['name'] ?? '');
  }
}
