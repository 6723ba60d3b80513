/** The style of the views, which is a part of their code. */

import style from 'planck-style';

const added = new WeakSet<Node>();

/** Add the style to the document, or to the shadow tree that contains the element; once each. */
export function addStyle(element: HTMLElement): void {
  const root = element.getRootNode();
  const parent = root instanceof ShadowRoot ? root : document.head;
  if (added.has(parent)) return;
  added.add(parent);
  const tag = document.createElement('style');
  tag.textContent = style;
  parent.append(tag);
}
