/** A button with a menu, used by pointer or by keyboard. */

import { h } from './dom.ts';
import { moveFocus, onKeys } from './keys.ts';

export interface MenuItem {
  readonly label: string;
  /** A class of its own, such as one that shows it in narrow cells only. */
  readonly className?: string;
  does(): void;
}

/** The distance of the menu from its button and from the edges of the window, in pixels. */
const GAP = 4;

/** Returns the button and its menu, which belong together into the document. `items` is called when it first opens. */
export function menuButton(label: string, content: Node, items: () => readonly MenuItem[]): HTMLElement[] {
  const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'icon', 'aria-label': label, title: label });
  button.setAttribute('aria-haspopup', 'menu');
  button.setAttribute('aria-expanded', 'false');
  button.append(content);
  const menu = h('div', { class: 'pk-menu', role: 'menu', popover: 'auto', 'aria-label': label });
  const fill = (): void => {
    for (const item of items()) {
      const attributes = { class: `pk-item ${item.className ?? ''}`.trim(), type: 'button', role: 'menuitem', tabindex: '-1' };
      const element = h('button', attributes, item.label);
      element.addEventListener('click', () => {
        close();
        item.does();
      });
      menu.append(element);
    }
  };
  // Most menus are never opened.
  menu.addEventListener('beforetoggle', fill, { once: true });
  button.popoverTargetElement = menu;
  const visible = (): HTMLElement[] => [...menu.querySelectorAll<HTMLElement>('.pk-item')].filter((one) => one.checkVisibility());
  const close = (): void => {
    menu.hidePopover();
    button.focus({ preventScroll: true });
  };
  const enter = (): void => {
    place(menu, button.getBoundingClientRect());
    const focused = (menu.getRootNode() as Document).activeElement;
    if (!menu.contains(focused)) visible()[0]?.focus({ preventScroll: true });
  };
  const hide = (): void => menu.hidePopover();
  menu.addEventListener('toggle', () => {
    const open = menu.matches(':popover-open');
    button.setAttribute('aria-expanded', String(open));
    document[open ? 'addEventListener' : 'removeEventListener']('scroll', hide, true);
    if (open) enter();
  });
  const open = (): void => {
    if (!menu.matches(':popover-open')) menu.showPopover();
    enter(); // at once, because the event `toggle` comes after the next key
  };
  const closeByKey = (event: KeyboardEvent): boolean => {
    close();
    event.stopPropagation();
    return event.key !== 'Tab'; // which still moves on from the button
  };
  onKeys(button, 'menuButton', { open });
  onKeys(menu, 'menu', { move: (event) => moveFocus(visible(), event, true), close: closeByKey });
  return [button, menu];
}

/** Below the button, or above it if there is more space, and always inside the window. */
function place(menu: HTMLElement, anchor: DOMRect): void {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = anchor.bottom + GAP;
  const top = below + height <= window.innerHeight ? below : Math.max(GAP, anchor.top - height - GAP);
  menu.style.top = `${top}px`;
  menu.style.left = `${Math.max(GAP, Math.min(anchor.right, window.innerWidth - GAP) - width)}px`;
}
