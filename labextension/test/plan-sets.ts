/** Reads `[cells, set]` pairs as JSON, and writes for each the cells after the set and after it was taken back. */

import { readFileSync } from 'node:fs';

import { plan } from '../src/lab/proposals.ts';
import type { CellData, Operation } from '../src/lab/proposals.ts';

const cases = JSON.parse(readFileSync(0, 'utf8')) as [CellData[], Operation[]][];
const done = cases.map(([cells, set]) => {
  const planned = plan(cells, set, () => 'filler');
  return [planned.conflicts, planned.cells, plan(planned.cells, planned.inverse, () => 'filler').cells];
});
console.log(JSON.stringify(done));
