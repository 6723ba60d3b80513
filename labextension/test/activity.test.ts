import assert from 'node:assert/strict';
import { test } from 'node:test';

import { news, summary } from '../src/lab/panel/activity.ts';
import type { Activity } from '../src/lab/kernel/protocol.generated.ts';

const activity = (working: number, waiting: number, cost: number | null = null): Activity => ({ type: 'activity', working, waiting, cost });

test('the status line has who works, what waits and what was paid', () => {
  assert.equal(summary([activity(0, 0), activity(0, 0, 0)]), '');
  assert.equal(summary([activity(1, 1)]), '1 agent works · 1 waits for you');
  assert.equal(summary([activity(1, 0, 0.1), activity(2, 2, 0.02)]), '3 agents work · 2 wait for you · $0.120');
});

test('a call that waits and the end of all work are news', () => {
  assert.equal(news(null, activity(0, 1), 'a.ipynb'), '');
  assert.equal(news(activity(1, 0), activity(1, 1), 'a.ipynb'), 'An agent in a.ipynb waits for you.');
  assert.equal(news(activity(1, 1), activity(1, 0), 'a.ipynb'), '');
  assert.equal(news(activity(1, 0), activity(0, 0), 'a.ipynb'), 'The agents in a.ipynb have finished.');
  assert.equal(news(activity(1, 0), null, 'a.ipynb'), '');
});
