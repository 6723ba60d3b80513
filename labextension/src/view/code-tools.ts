/** The buttons of code in answers: copy it, wrap its lines, insert it as a cell. */

import type { Announcer } from './announcer.ts';
import type { NotebookCell } from './notebook-cell.ts';

const COPIED_MS = 2000;

/** Handle the buttons of all code inside an element, also of code that is added later. */
export function addCodeTools(element: HTMLElement, announcer: Announcer, cell: NotebookCell): void {
  element.classList.toggle('pk-fixed', !cell.canInsert); // only notebooks have cells
  element.addEventListener('click', (event) => {
    const button = (event.target as Element).closest<HTMLElement>('.pk-tools > [data-does]');
    const box = button?.closest('.pk-code')?.querySelector<HTMLElement>('pre');
    if (!button || !box) return;
    if (button.dataset['does'] === 'copy') copy(box.textContent, button, announcer);
    else if (button.dataset['does'] === 'insert') cell.insertBelow(box.textContent);
    else {
      const wrapped = box.classList.toggle('pk-wrap');
      button.setAttribute('aria-pressed', String(wrapped));
    }
  });
}

/** Copy a text, and show in the button for a moment whether that was possible. */
export function copy(text: string, button: HTMLElement, announcer: Announcer): void {
  const label = button.textContent;
  const show = (outcome: string): void => {
    button.style.minWidth = `${button.offsetWidth}px`; // nothing moves under the pointer
    button.textContent = outcome;
    announcer.announceNow(outcome);
    window.setTimeout(() => {
      button.textContent = label;
    }, COPIED_MS);
  };
  navigator.clipboard.writeText(text).then(
    () => show('Copied'),
    () => show('Not allowed'),
  );
}
