/** Keeps the line that a reader looks at where it is, while what is around it is replaced. */

/** What a line of text can be: in the live view, and in the saved output. */
const LINES = 'p, li, pre, tr, h1, h2, h3, h4, h5, h6, blockquote, .pk-said, summary';

/** Longer texts are compared by their beginning. */
const COMPARED = 500;

interface Anchor {
  readonly element: Element;
  /** The distance from the top of the window, in pixels. */
  readonly top: number;
  /** Of a line in the transcript: its text, and how many lines with the same text come before it. */
  readonly text: string;
  readonly before: number;
}

/** For so long after the change the notebook may still move what it shows, in milliseconds. */
const SETTLES_MS = 500;

/** With these the reader moves, so that nothing is put back any more. */
const BY_READER = ['wheel', 'keydown', 'pointerdown', 'touchstart'] as const;

/**
 * Make a change that replaces `transcript` by saved output, and scroll the notebook so that the line which the reader
 * looks at does not move. Returns whether it was found again.
 *
 * @param transcript The live transcript, which scrolls.
 * @param atEnd Whether it shows its end, so that the reader looks at the last lines and not at the first ones.
 * @param saved Returns the saved output after the change; null if there is none.
 */
export function keepPlace(transcript: HTMLElement, atEnd: boolean, change: () => void, saved: () => Element | null): boolean {
  const scroller = scrollerOf(transcript);
  const anchor = scroller === null ? null : (lineIn(transcript, scroller, atEnd) ?? cellBelow(transcript, scroller));
  change();
  if (scroller === null || anchor === null) return false;
  const found = anchor.element.isConnected ? anchor.element : lineLike(anchor, saved());
  if (found === null) return false;
  holdStill(scroller, found, anchor.top);
  return true;
}

/** Keep an element at this distance from the top of the window until the notebook has settled or the reader scrolls. */
function holdStill(scroller: HTMLElement, element: Element, top: number): void {
  const until = performance.now() + SETTLES_MS;
  const { overflowAnchor } = scroller.style;
  scroller.style.overflowAnchor = 'none'; // the browser would keep another element
  let ended = false;
  const end = (): void => {
    ended = true;
    scroller.style.overflowAnchor = overflowAnchor;
    for (const type of BY_READER) window.removeEventListener(type, end, true);
  };
  for (const type of BY_READER) window.addEventListener(type, end, { capture: true, passive: true });
  const place = (): void => {
    if (ended) return;
    const moved = element.getBoundingClientRect().top - top;
    if (Math.abs(moved) >= 1) scroller.scrollBy({ top: moved, behavior: 'instant' });
    if (performance.now() < until && element.isConnected) requestAnimationFrame(place);
    else end();
  };
  place();
}

/** The element that scrolls the notebook: the outermost one, because outputs may scroll, too. */
export function scrollerOf(element: HTMLElement): HTMLElement | null {
  let found: HTMLElement | null = null;
  for (let parent = element.parentElement; parent !== null; parent = parent.parentElement) {
    const { overflowY } = getComputedStyle(parent);
    if ((overflowY === 'auto' || overflowY === 'scroll') && parent.scrollHeight > parent.clientHeight) found = parent;
  }
  return found;
}

/** The first line of the transcript that can be seen as a whole, or the last one. */
function lineIn(transcript: HTMLElement, scroller: Element, last: boolean): Anchor | null {
  const inner = transcript.getBoundingClientRect();
  const outer = scroller.getBoundingClientRect();
  const top = Math.max(inner.top, outer.top);
  const bottom = Math.min(inner.bottom, outer.bottom);
  const lines = linesOf(transcript);
  const isSeen = (line: Element): boolean => {
    const box = line.getBoundingClientRect();
    return box.height > 0 && box.bottom <= bottom + 1 && box.top >= top - 1;
  };
  const isPartlySeen = (line: Element): boolean => {
    const box = line.getBoundingClientRect();
    return box.height > 0 && box.bottom > top && box.top < bottom;
  };
  // The lines of calls differ in the saved output, where their durations and states are other words.
  const prose = lines.filter((line) => !line.matches('summary'));
  const find = (among: Element[], seen: (line: Element) => boolean): Element | undefined =>
    last ? among.findLast(seen) : among.find(seen);
  const element = find(prose, isSeen) ?? find(prose, isPartlySeen) ?? find(lines, isPartlySeen);
  if (element === undefined) return null;
  const text = textOf(element);
  const before = lines.slice(0, lines.indexOf(element)).filter((line) => textOf(line) === text).length;
  return { element, top: element.getBoundingClientRect().top, text, before };
}

/** If the transcript is above what can be seen: the first cell that can. */
function cellBelow(transcript: HTMLElement, scroller: Element): Anchor | null {
  const { top, bottom } = scroller.getBoundingClientRect();
  if (transcript.getBoundingClientRect().bottom > top) return null;
  const own = transcript.closest('.jp-Cell');
  const cells = [...(own?.parentElement?.querySelectorAll(':scope > .jp-Cell') ?? [])];
  const element = cells.slice(cells.indexOf(own as Element) + 1).find((cell) => {
    const box = cell.getBoundingClientRect();
    return box.bottom > top && box.top < bottom;
  });
  return element === undefined ? null : { element, top: element.getBoundingClientRect().top, text: '', before: 0 };
}

function lineLike({ text, before }: Anchor, saved: Element | null): Element | null {
  if (saved === null || text === '') return null;
  const like = linesOf(saved).filter((line) => textOf(line) === text);
  return like[before] ?? like.at(-1) ?? null;
}

/** The lines, without those that contain others. */
function linesOf(element: Element): Element[] {
  return [...element.querySelectorAll(LINES)].filter((line) => line.querySelector(LINES) === null);
}

function textOf(line: Element): string {
  return line.textContent.replace(/\s+/g, '').slice(0, COMPARED);
}
