/** Reads `[cells, sets]` pairs as JSON, and writes for each the conflicts, the cells after each set, and its inverse. */

import { readFileSync } from 'node:fs';

import { plan } from '../src/lab/review/proposals.ts';
import type { CellData, Operation } from '../src/lab/review/proposals.ts';

const cases = JSON.parse(readFileSync(0, 'utf8')) as [CellData[], Operation[][]][];
const done = cases.map(([cells, sets]) => {
  let now: readonly CellData[] = cells;
  return sets.map((set) => {
    const planned = plan(now, set, () => 'filler');
    now = planned.cells;
    return [planned.conflicts, planned.cells, planned.inverse];
  });
});
console.log(JSON.stringify(done));
