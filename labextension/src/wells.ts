/** Boxes of code, output and arguments. They hold text only. */

import { h, say } from './dom.ts';

/** Lines that are shown of output; those before them are one line, which opens. */
const TAIL_LINES = 10;

export type WellKind = '' | 'code' | 'bad';

export function well(label: string, text: string, kind: WellKind): HTMLElement {
  const pre = h('pre', { class: 'pk-well', 'data-kind': kind, 'data-name': label || 'result' });
  if (label !== '') pre.append(h('span', { class: 'pk-label' }, label));
  pre.append(text);
  return pre;
}

/** A box that shows the end of a text, and all of it when asked. */
export function tailWell(label: string, text: string, kind: WellKind): HTMLElement {
  const lines = text.trimEnd().split('\n');
  if (lines.length <= TAIL_LINES + 1) return well(label, text, kind);
  const pre = well(label, lines.slice(-TAIL_LINES).join('\n'), kind);
  const button = h('button', { class: 'pk-more', type: 'button' }, earlierLines(lines.length - TAIL_LINES));
  button.addEventListener('click', () => {
    pre.replaceChildren(...well(label, text, kind).childNodes);
    pre.tabIndex = 0;
    pre.focus();
  });
  pre.insertBefore(button, pre.lastChild);
  return pre;
}

function earlierLines(count: number): string {
  return `${count.toLocaleString('en')} earlier ${count === 1 ? 'line' : 'lines'}\n`;
}

/** The newest lines of a tool that runs. */
export class OutputWell {
  readonly element: HTMLElement;
  private readonly more = h('span', { class: 'pk-more' });
  private readonly text = h('span');

  constructor() {
    this.element = h('pre', { class: 'pk-well', 'data-name': 'output' }, this.more, this.text, h('span', { class: 'pk-caret' }));
  }

  show(text: string, earlier: number): void {
    say(this.more, earlier === 0 ? '' : earlierLines(earlier));
    say(this.text, text);
  }
}

/** The longest argument while it is being written. */
export class FormingWell {
  readonly element: HTMLElement;
  private readonly label = h('span', { class: 'pk-label' });
  private readonly text = document.createTextNode('');

  constructor() {
    this.element = h('pre', { class: 'pk-well', 'data-kind': 'code' }, this.label, this.text, h('span', { class: 'pk-caret' }));
  }

  show(name: string, text: string): void {
    say(this.label, name);
    if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.length));
    else this.text.data = text;
    this.element.scrollTop = this.element.scrollHeight;
  }
}

/** A box that scrolls must be reachable by keyboard, and then it needs a name. */
export function nameOverflowing(body: HTMLElement): void {
  for (const box of body.querySelectorAll<HTMLElement>('.pk-well, .pk-diff')) {
    if (box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight) continue;
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', box.dataset['name'] ?? '');
  }
}
