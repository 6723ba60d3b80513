/**
 * Keys by place and action. Generated from `planck_nb/jupyter/keys.py` by `python labextension/build.py`;
 * do not edit.
 */

export const KEYS = {
  run: { stop: ['Accel+.'], leave: ['Escape'] },
  field: { send: ['Enter'], queue: ['Alt+Enter'], newLine: ['Shift+Enter'] },
  queued: { leave: ['Escape'] },
  lines: { move: ['ArrowUp', 'ArrowDown', 'Home', 'End'], open: ['ArrowRight'], close: ['ArrowLeft'] },
  team: { move: ['ArrowUp', 'ArrowDown', 'Home', 'End'], toggle: ['Enter', 'Space'], open: ['ArrowRight'], close: ['ArrowLeft'] },
  member: { leave: ['Escape'] },
  approval: { allow: ['Accel+Enter'], back: ['Escape'] },
  question: { accept: ['Accel+Enter'] },
  change: { accept: ['Accel+Enter', 'Accel+F8'], next: ['F8', 'Alt+ArrowDown'], previous: ['Shift+F8', 'Alt+ArrowUp'], leave: ['Escape'] },
  review: { next: ['F8', 'Alt+ArrowDown'], previous: ['Shift+F8', 'Alt+ArrowUp'], leave: ['Escape'] },
  ask: { send: ['Enter', 'Accel+Enter'] },
  sessions: { move: ['ArrowUp', 'ArrowDown'] },
  menuButton: { open: ['ArrowDown'] },
  menu: { move: ['ArrowUp', 'ArrowDown', 'Home', 'End'], close: ['Escape', 'Tab', 'Shift+Tab'] },
} as const;
