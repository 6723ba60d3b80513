/** Painting of all views of a page: a little in each frame, so that many views at once do not make the page stall. */

const BUDGET_MS = 12;
/** A frame that has not come after this long may never come, so another one is requested. */
const LOST_MS = 1000;
/** While a pointer is pressed, nothing is painted for this long at most. */
const PRESS_MS = 5000;

/** What depends on the layout after a change of the page. */
export interface Placed {
  /** Read the layout, and change nothing. */
  measure(): void;
  /** Change the page, and read nothing. */
  place(): void;
}

const RELEASES = ['pointerup', 'pointercancel', 'pointermove'] as const;

const waiting = new Set<() => void>();
const placed = new Set<Placed>();
let requested = -Infinity;
/** The timer that requests another frame if the last one is lost; 0 if none is needed yet. */
let retry = 0;
let painting = false;
/** The timer that ends a press; 0 if no pointer is pressed. */
let press = 0;

/** Call `paint` in one of the next frames, once; those that have waited longest come first. */
export function paintSoon(paint: () => void): void {
  waiting.add(paint);
  request();
}

/** Do not call `paint` after all. */
export function cancelPaint(paint: () => void): void {
  waiting.delete(paint);
}

/**
 * Measure and place now or, while views are painted, after all of them: measuring after each change would have the
 * browser lay the page out for each view.
 */
export function placeAfterPaint(item: Placed): void {
  placed.add(item);
  if (!painting) placeAll();
}

/**
 * Paint nothing while a pointer is pressed on `element`: a button that moves away between press and release is not
 * clicked, and a selection ends elsewhere than where the pointer is.
 */
export function waitForPresses(element: HTMLElement): void {
  element.addEventListener('pointerdown', begin, true);
}

function begin(): void {
  clearTimeout(press);
  press = window.setTimeout(release, PRESS_MS);
  for (const type of RELEASES) window.addEventListener(type, release, true);
}

function release(event?: Event): void {
  // Moving with a button held is part of the press; without one, the release happened outside the page.
  if (event?.type === 'pointermove' && (event as PointerEvent).buttons !== 0) return;
  clearTimeout(press);
  press = 0;
  for (const type of RELEASES) window.removeEventListener(type, release, true);
  if (waiting.size > 0) request(); // the click comes before the next frame
}

function placeAll(): void {
  const items = [...placed];
  placed.clear();
  for (const item of items) item.measure();
  for (const item of items) item.place();
}

function request(): void {
  const now = performance.now();
  const left = requested + LOST_MS - now;
  if (left > 0) {
    retry ||= window.setTimeout(requestAgain, left);
    return;
  }
  requested = now;
  requestAnimationFrame(run);
}

/** Nothing else may be painted for long, so what waits must not depend on that. */
function requestAgain(): void {
  retry = 0;
  if (waiting.size > 0) request();
}

function run(): void {
  requested = -Infinity;
  if (press !== 0) return;
  const end = performance.now() + BUDGET_MS;
  painting = true;
  try {
    for (const paint of waiting) {
      waiting.delete(paint);
      paint();
      if (performance.now() > end) break;
    }
  } finally {
    painting = false;
    if (waiting.size > 0) request();
    placeAll();
  }
}
