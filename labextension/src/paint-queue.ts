/** Painting of all views of a page: a little in each frame, so that many views at once do not make the page stall. */

const BUDGET_MS = 24;
/** A frame that has not come after this long may never come, so another one is requested. */
const LOST_MS = 1000;

const waiting = new Set<() => void>();
let requested = -Infinity;

/** Call `paint` in one of the next frames, once; those that have waited longest come first. */
export function paintSoon(paint: () => void): void {
  waiting.add(paint);
  request();
}

/** Do not call `paint` after all. */
export function cancelPaint(paint: () => void): void {
  waiting.delete(paint);
}

function request(): void {
  const now = performance.now();
  if (now - requested < LOST_MS) return;
  requested = now;
  requestAnimationFrame(run);
}

function run(): void {
  requested = -Infinity;
  const end = performance.now() + BUDGET_MS;
  for (const paint of waiting) {
    waiting.delete(paint);
    paint();
    if (performance.now() > end) break;
  }
  if (waiting.size > 0) request();
}
