/** One element with its class, attributes and children. */
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

/** Set a text only when it differs: what does not change costs no layout. */
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A sentence of ours, with the code that stands in it between backticks. */
export function sentence(text: string): (Node | string)[] {
  return text.split(/`([^`]+)`/).map((piece, at) => (at % 2 === 1 ? h('code', {}, piece) : piece));
}

/** A field for a text of some lines: Enter takes it, Shift+Enter begins a new line. */
export function textField(label: string, enter: (event: KeyboardEvent) => void): HTMLTextAreaElement {
  const box = h('textarea', { class: 'pk-field', rows: '1', 'aria-label': label });
  box.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.isComposing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    // By hand: JupyterLab takes the line breaks of Shift+Enter away from whatever stands inside a cell.
    if (event.shiftKey) box.setRangeText('\n', box.selectionStart, box.selectionEnd, 'end');
    else enter(event);
  });
  return box;
}
