/** Groups of many calls of one reply, each shown as one line. No DOM here. */

import { isLive } from './agent-state.ts';
import type { Call, Item } from './agent-state.ts';

/** More finished calls than this in a row are grouped. */
const UNGROUPED = 8;

export interface CallGroup {
  readonly from: number;
  readonly to: number;
}

/** The positions of more than eight calls of one reply in a row, if all of them are finished. */
export function callGroups(items: readonly Item[]): CallGroup[] {
  const found: CallGroup[] = [];
  let from = 0;
  while (from < items.length) {
    const first = items[from];
    let to = from + 1;
    if (first?.kind === 'call') {
      while (to < items.length && ofReply(items[to], first)) to++;
      if (to - from > UNGROUPED && items.slice(from, to).every(finished)) found.push({ from, to });
    }
    from = to;
  }
  return found;
}

function ofReply(item: Item | undefined, { agent, step }: Call): boolean {
  return item?.kind === 'call' && item.agent === agent && item.step === step;
}

function finished(item: Item): boolean {
  return item.kind === 'call' && !isLive(item);
}

/** How often each tool was called: `read 30, bash 4`. */
export function toolCounts(calls: readonly Call[]): string {
  const times = new Map<string, number>();
  for (const { name } of calls) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].map(([name, count]) => `${name} ${count}`).join(', ');
}

/** How many calls did not succeed: `1 failed, 2 denied`. */
export function failureCounts(calls: readonly Call[]): string {
  const words = { bad: 'failed', deny: 'denied', stop: 'stopped' } as const;
  return (['bad', 'deny', 'stop'] as const)
    .map((state) => [calls.filter((call) => call.state === state).length, words[state]] as const)
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}
