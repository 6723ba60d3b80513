/** Many calls of one step, which are one line. No DOM here. */

import { live } from './model.ts';
import type { Call, Item } from './model.ts';

/** More finished calls than this in a row are one line. */
const LINES = 8;

export interface Crowd {
  readonly from: number;
  readonly to: number;
}

/** Where more than eight calls of one step, all of them finished, stand in a row. */
export function crowds(items: readonly Item[]): Crowd[] {
  const found: Crowd[] = [];
  let from = 0;
  while (from < items.length) {
    const first = items[from];
    let to = from + 1;
    if (first?.kind === 'call') {
      while (to < items.length && ofStep(items[to], first.step)) to++;
      if (to - from > LINES && items.slice(from, to).every(finished)) found.push({ from, to });
    }
    from = to;
  }
  return found;
}

function ofStep(item: Item | undefined, step: number): boolean {
  return item?.kind === 'call' && item.step === step;
}

function finished(item: Item): boolean {
  return item.kind === 'call' && !live(item);
}

/** What was called how often: `read 30, bash 4`. */
export function namesOf(calls: readonly Call[]): string {
  const times = new Map<string, number>();
  for (const { name } of calls) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].map(([name, count]) => `${name} ${count}`).join(', ');
}

/** How many did not go well: `1 failed, 2 denied`. */
export function troubleOf(calls: readonly Call[]): string {
  const words = { bad: 'failed', deny: 'denied', stop: 'stopped' } as const;
  return (['bad', 'deny', 'stop'] as const)
    .map((state) => [calls.filter((call) => call.state === state).length, words[state]] as const)
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}
