/** Handlers for keys, from the one table, which help shows, too. */

import { KEYS } from './keys.generated.ts';

type Places = typeof KEYS;
/** What to do for each action at a place; `false` leaves the key to others. */
type Actions<Place extends keyof Places> = Readonly<Record<keyof Places[Place], (event: KeyboardEvent) => unknown>>;

/** Make the handler for a place. A key with an action there does nothing else. */
export function keyHandler<Place extends keyof Places>(place: Place, actions: Actions<Place>): (event: KeyboardEvent) => void {
  const byKey = new Map<string, (event: KeyboardEvent) => unknown>();
  for (const [action, keys] of Object.entries<readonly string[]>(KEYS[place]))
    for (const key of keys) byKey.set(key, actions[action as keyof Places[Place]]);
  return (event) => {
    const act = event.isComposing ? undefined : byKey.get(pressed(event));
    if (act === undefined || act(event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/** Listen for the keys of a place. */
export function onKeys<Place extends keyof Places>(element: HTMLElement, place: Place, actions: Actions<Place>): void {
  element.addEventListener('keydown', keyHandler(place, actions));
}

/** What an action's first key is called on keyboards. */
export function keyName(place: 'approval' | 'change' | 'run', action: string): string {
  const [key = ''] = (KEYS[place] as Readonly<Record<string, readonly string[]>>)[action] ?? [];
  return key.replace('Accel', 'Ctrl');
}

/** Focus the item before or after the focused one, the first or the last. */
export function moveFocus(items: readonly HTMLElement[], { key, target }: KeyboardEvent, wraps = false): void {
  const last = items.length - 1;
  const to = key === 'Home' ? 0 : key === 'End' ? last : items.indexOf(target as HTMLElement) + (key === 'ArrowUp' ? -1 : 1);
  items.at(wraps ? to % items.length : Math.min(Math.max(to, 0), last))?.focus();
}

/** A pressed key as the table writes it. Some keyboards need Shift for a sign such as the full stop. */
function pressed({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): string {
  const name = key === ' ' ? 'Space' : key;
  return `${ctrlKey || metaKey ? 'Accel+' : ''}${altKey ? 'Alt+' : ''}${shiftKey && name.length > 1 ? 'Shift+' : ''}${name}`;
}
