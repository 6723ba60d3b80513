/** The queue of painting where frames are lost, as in a page whose window was hidden or that is very busy. */

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

const frames: (() => void)[] = [];
Object.assign(globalThis, {
  window: globalThis,
  requestAnimationFrame: (callback: () => void): number => frames.push(callback),
});
mock.timers.enable({ apis: ['setTimeout'] });
let now = 0;
mock.method(performance, 'now', () => now);

const { paintSoon } = await import('../src/view/paint-queue.ts');

function pass(milliseconds: number): void {
  now += milliseconds;
  mock.timers.tick(milliseconds);
}

test('what waits is painted although a frame was lost and nothing more is painted', () => {
  const painted: string[] = [];
  paintSoon(() => painted.push('first'));
  assert.equal(frames.length, 1);
  frames.length = 0; // the frame never comes
  pass(10);
  paintSoon(() => painted.push('second'));
  assert.equal(frames.length, 0, 'a frame is requested already');
  pass(1000);
  assert.equal(frames.length, 1);
  frames.pop()?.();
  assert.deepEqual(painted, ['first', 'second']);
});

test('a frame that comes is not requested again', () => {
  const painted: string[] = [];
  paintSoon(() => painted.push('one'));
  paintSoon(() => painted.push('two'));
  frames.pop()?.();
  assert.deepEqual(painted, ['one', 'two']);
  pass(5000);
  assert.equal(frames.length, 0);
});
