/** What the table makes of keys. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { keyHandler } from '../src/view/keys.ts';

const PLAIN = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, isComposing: false };

/** Press a key in a prompt's field or in a run; returns the action, and whether others get the key. */
function press(key: Partial<KeyboardEvent>, isRefused = false): readonly [action: string, kept: boolean] {
  let action = '';
  let kept = false;
  const does = (name: string) => (): boolean => {
    action = name;
    return !isRefused;
  };
  const event = { ...PLAIN, ...key, preventDefault: () => {}, stopPropagation: () => (kept = true) } as unknown as KeyboardEvent;
  keyHandler('field', { send: does('send'), queue: does('queue'), newLine: does('newLine') })(event);
  keyHandler('run', { stop: does('stop'), leave: does('leave') })(event);
  return [action, kept];
}

const CASES: readonly (readonly [key: Partial<KeyboardEvent>, action: string])[] = [
  [{ key: 'Enter' }, 'send'],
  [{ key: 'Enter', altKey: true }, 'queue'],
  [{ key: 'Enter', shiftKey: true }, 'newLine'],
  [{ key: 'Enter', ctrlKey: true }, ''],
  [{ key: 'Enter', isComposing: true }, ''],
  [{ key: '.', ctrlKey: true }, 'stop'],
  [{ key: '.', metaKey: true }, 'stop'],
  [{ key: '.', ctrlKey: true, shiftKey: true }, 'stop'],
  [{ key: '.' }, ''],
  [{ key: 'constructor' }, ''],
];

for (const [key, action] of CASES)
  test(`${JSON.stringify(key)} is ${action || 'left to others'}`, () => assert.deepEqual(press(key), [action, action !== '']));

test('an action that does not fit leaves the key to others', () => assert.deepEqual(press({ key: 'Escape' }, true), ['leave', false]));
