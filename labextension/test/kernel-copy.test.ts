import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ASK_MS, doing, KernelCopy, windowOf } from '../src/lab/kernel/kernel-copy.ts';
import type { AgentEntry, Overview } from '../src/lab/kernel/protocol.generated.ts';

const overview = (more: Partial<Overview> = {}): Overview => ({
  type: 'overview',
  request: '',
  age: 0,
  now: 0,
  running: false,
  default: 'planck',
  session: '',
  agents: [],
  teams: [],
  waiting: [],
  stored: 0,
  history: null,
  ...more,
});

test('a kernel is asked once in a while, and not again before it has answered', async () => {
  const answers: ((overview: Overview | null) => void)[] = [];
  const copy = new KernelCopy(() => new Promise((resolve) => answers.push(resolve)));
  const first = copy.ask(0);
  assert.equal(await copy.ask(10 * ASK_MS), false);
  answers[0]!(overview());
  assert.equal(await first, true);
  assert.equal(await copy.ask(ASK_MS - 1), false);
  void copy.ask(ASK_MS);
  assert.equal(answers.length, 2);
});

test('the history stays until the kernel sends another one, and a kernel that ends leaves the copy', async () => {
  const sessions = [{ id: 'a', name: 'a', messages: 1, cost: null, used: 0 }];
  const history = { sessions, cost: 1, unpriced: false, tokens: 5, problem: '', untrusted: [] };
  const asked: number[] = [];
  const answers = [overview({ stored: 3, history }), overview({ stored: 3, age: 5 }), null];
  const copy = new KernelCopy(async (stored) => {
    asked.push(stored);
    return answers[asked.length - 1]!;
  });
  assert.equal(copy.isBusy(performance.now()), true);
  await copy.ask(0);
  assert.equal(copy.isBusy(performance.now()), false);
  copy.expire();
  assert.equal(copy.isBusy(performance.now()), true);
  await copy.ask(ASK_MS);
  assert.equal(copy.isBusy(performance.now()), true, 'an old copy says nothing about now');
  assert.equal(await copy.ask(2 * ASK_MS), false);
  assert.deepEqual(asked, [0, 3, 3]);
  assert.deepEqual(copy.history, history);
});

test('rows in sight are drawn, and the others keep their space', () => {
  const at = (top: number, open: number): object => windowOf(2000, { top, height: 352, row: 44, open, more: 32 });
  assert.deepEqual(at(0, -1), { first: 0, last: 16, before: 0, after: 1984 * 44 });
  assert.deepEqual(at(44_000, 3), { first: 992, last: 1016, before: 992 * 44 + 32, after: 984 * 44 });
  assert.deepEqual(at(44_000, 1000), { first: 992, last: 1016, before: 992 * 44, after: 984 * 44 });
  assert.deepEqual(at(88_000, -1), { first: 1992, last: 2000, before: 1992 * 44, after: 0 });
});

test('what an agent does is told as past where the copy is old', () => {
  const agent: AgentEntry = { name: 'a', team: '', status: 'streaming', waits_for: '', model: '', cost: null };
  assert.equal(doing(agent, false), 'Writing');
  assert.equal(doing(agent, true), 'Was writing');
  assert.equal(doing({ ...agent, waits_for: 'approval of bash' }, false), 'Waits for approval of bash');
  assert.equal(doing({ ...agent, status: 'idle' }, true), 'Idle');
});
