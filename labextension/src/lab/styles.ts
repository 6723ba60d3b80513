/** The extension's own styles, and the views' styles, once a page. */

import { EXTENSION_URL } from './scripts.ts';
import panelStyle from './panel/panel.css';
import style from './review/review.css';

/** The file with the views' code, filled in by `build.py`. */
declare const VIEW: string;

type View = typeof import('../live.ts');

let added = false;

export function addStyles(): void {
  if (added) return;
  added = true;
  const tag = document.createElement('style');
  tag.textContent = style + panelStyle;
  document.head.append(tag);
  void viewModule().then((view) => view.addStyle(document.body));
}

/** The views' code, from the same address as in the views. */
export function viewModule(): Promise<View> {
  return import(`${EXTENSION_URL}/${VIEW}.js`) as Promise<View>;
}
