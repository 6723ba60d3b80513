/** The output that the notebook saves for a run, as far as the page shows it in the cell of the run's view. */

/** What contains the outputs of one cell: JupyterLab, Notebook and Voila; VS Code; Notebook 6; Colab. */
const AREAS = '.jp-OutputArea, .cell_container, .output_wrapper, #output-area';

/** The output with this class in the cell of the element; null if there is none. */
export function staticOutput(element: Element, marker: string): Element | null {
  return hasStaticOutput(element, marker) ? ((element.closest(AREAS) ?? document.body).querySelector(`.${CSS.escape(marker)}`)) : null;
}

/** Whether the output with this class is in the cell of the element. */
export function hasStaticOutput(element: Element, marker: string): boolean {
  const area = element.closest(AREAS);
  const inCell = area ?? document.body;
  const found = [...inCell.querySelectorAll(`.pk, .${CSS.escape(marker)}`)];
  if (area) return found.some((one) => one.classList.contains(marker));
  // Of an unknown page only this is known: outputs are in their order, so this output comes before the next view.
  const next = found.slice(found.findIndex((one) => element.contains(one) || one.contains(element)) + 1);
  return next[0]?.classList.contains(marker) ?? false;
}

/** Call `listener` when the output appears, now or later. Returns a function that ends the observation. */
export function onStaticOutput(element: Element, marker: string, listener: () => void): () => void {
  if (hasStaticOutput(element, marker)) {
    listener();
    return () => {};
  }
  const look = (): void => {
    if (!hasStaticOutput(element, marker)) return;
    end();
    listener();
  };
  const observer = new MutationObserver(look);
  // The cell may be detached from the document, or the view from its cell, so this also looks from time to time.
  const timer = window.setInterval(look, 1000);
  const end = (): void => {
    observer.disconnect();
    clearInterval(timer);
  };
  observer.observe(element.closest(AREAS) ?? document.body, { childList: true, subtree: true });
  return end;
}

/** How long the output may be held back, in milliseconds, in case the end of the run does not arrive. */
const HELD_MS = 1000;

/**
 * Hold the output back when it appears, so that it does not move what is around before the view folds. Returns a
 * function that shows it and ends the observation.
 */
export function holdStaticOutput(element: Element, marker: string): () => void {
  const area = element.closest(AREAS);
  if (area === null) return () => {};
  let held: HTMLElement | null = null;
  let timer = 0;
  const show = (): void => {
    observer.disconnect();
    clearTimeout(timer);
    held?.style.removeProperty('display');
    held = null;
  };
  const look = (): void => {
    // The content of an output comes later than its element.
    for (const child of area.children) {
      if (child.contains(element) || held !== null) continue;
      if (child.querySelector(`.${CSS.escape(marker)}`) === null) observer.observe(child, { childList: true, subtree: true });
      else {
        held = child as HTMLElement;
        held.style.setProperty('display', 'none');
        timer = window.setTimeout(show, HELD_MS);
      }
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(area, { childList: true });
  return show;
}

/** Errors in JupyterLab and Notebook 7, both MIME types in use. */
const ERRORS = '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]';

/** Longest time until a failed run's error appears below it, in milliseconds. */
const ERROR_MS = 3000;

/** Hide the cell's error output if it repeats the view's sentence. The saved notebook keeps it. */
export function hideError(element: Element, sentence: string): void {
  const area = element.closest('.jp-OutputArea');
  const beginning = sentence.slice(0, 40);
  if (area === null || beginning === '') return;
  const look = (): void => {
    for (const error of area.querySelectorAll<HTMLElement>(ERRORS)) {
      if (!error.textContent.includes(beginning)) continue;
      error.closest<HTMLElement>('.jp-OutputArea-child')?.style.setProperty('display', 'none');
      observer.disconnect();
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(area, { childList: true, subtree: true });
  window.setTimeout(() => observer.disconnect(), ERROR_MS);
  look();
}
