import { onKeys } from './keys.ts';

/** Create an element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Set the text of an element if it differs: an unchanged text needs no layout. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Text with inline code between backticks, as nodes. */
export function withCode(text: string): (Node | string)[] {
  return text.split(/`([^`]+)`/).map((piece, at) => (at % 2 === 1 ? h('code', {}, piece) : piece));
}

/** A text field of several lines: Enter submits, Shift+Enter starts a new line. */
export function textField(label: string, submit: (event: KeyboardEvent) => void): HTMLTextAreaElement {
  const box = h('textarea', { class: 'pk-field', rows: '1', 'aria-label': label });
  // Inserted here because JupyterLab prevents the default action of Shift+Enter inside a cell.
  const newLine = (): void => box.setRangeText('\n', box.selectionStart, box.selectionEnd, 'end');
  onKeys(box, 'field', { send: submit, queue: submit, newLine });
  return box;
}
