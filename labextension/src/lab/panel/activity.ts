/** The agents' activity in words, for the status bar and notifications. */

import { dollars } from '../../model/format.ts';
import type { Activity } from '../kernel/protocol.generated.ts';

/** The activity in all notebooks as one line, which may be empty. */
export function summary(activities: readonly Activity[]): string {
  const working = sum(activities.map((activity) => activity.working));
  const waiting = sum(activities.map((activity) => activity.waiting));
  const costs = activities.flatMap(({ cost }) => (cost === null ? [] : [cost]));
  const parts: string[] = [];
  if (working > 0) parts.push(working === 1 ? '1 agent works' : `${working} agents work`);
  if (waiting > 0) parts.push(waiting === 1 ? '1 waits for you' : `${waiting} wait for you`);
  if (sum(costs) > 0) parts.push(dollars(sum(costs)));
  return parts.join(' · ');
}

/** A sentence for a person who looks elsewhere; may be empty. */
export function news(before: Activity | null, now: Activity | null, notebook: string): string {
  if (before === null || now === null) return '';
  if (now.waiting > before.waiting) return `An agent in ${notebook} waits for you.`;
  return before.working > 0 && now.working === 0 ? `The agents in ${notebook} have finished.` : '';
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
