/** The styles of the extension, and those of the views, which a page has once. */

import style from './review.css';

/** The file with the code of the views, which `build.py` fills in. */
declare const VIEW: string;
declare const EXTENSION: string;

type View = typeof import('../live.ts');

let added = false;

export function addStyles(): void {
  if (added) return;
  added = true;
  const tag = document.createElement('style');
  tag.textContent = style;
  document.head.append(tag);
  void viewModule().then((view) => view.addStyle(document.body));
}

/** The code of the views, from the same address as the views themselves have it. */
export function viewModule(): Promise<View> {
  const config = JSON.parse(document.getElementById('jupyter-config-data')?.textContent ?? '{}') as Record<string, string>;
  return import(`${config['fullLabextensionsUrl']}/${EXTENSION}/static/${VIEW}.js`) as Promise<View>;
}
