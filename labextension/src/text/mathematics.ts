/** Typesets formulas as MathML. The code for it is large, so it is loaded with the first formula. */

import { loadPart } from '../widget/parts.ts';

interface Typesetter {
  render(tex: string, element: HTMLElement, options: object): void;
}

const OPTIONS = { throwOnError: true, trust: false, strict: false, maxExpand: 200, maxSize: [20, 200] };

/** More formulas are not remembered. */
const REMEMBERED = 500;

let typesetter: Typesetter | null = null;
let loading: Promise<void> | null = null;
const waiting = new Set<HTMLElement>();
/** Open blocks are rendered again and again, so formulas are typeset once. */
const finished = new Map<string, Node[]>();

/** Typeset the TeX that an element contains, at once or when the typesetter has been loaded. */
export function typeset(element: HTMLElement): void {
  if (typesetter !== null) {
    show(element, typesetter);
    return;
  }
  waiting.add(element);
  loading ??= loadPart<Typesetter>('mathematics').then(
    (loaded) => {
      typesetter = loaded;
      for (const each of waiting) show(each, loaded);
      waiting.clear();
    },
    () => {
      waiting.clear(); // formulas stay as they were written
      loading = null;
    },
  );
}

function show(element: HTMLElement, { render }: Typesetter): void {
  const tex = element.textContent;
  const displayMode = element.dataset['display'] === 'true';
  const key = `${displayMode} ${tex}`;
  const known = finished.get(key);
  if (known !== undefined) {
    element.replaceChildren(...known.map((node) => node.cloneNode(true)));
    return;
  }
  const place = document.createElement('span');
  try {
    render(tex, place, { ...OPTIONS, displayMode });
  } catch {
    return; // not TeX: it stays as it was written
  }
  if (finished.size >= REMEMBERED) finished.clear();
  finished.set(key, [...place.childNodes].map((node) => node.cloneNode(true)));
  element.replaceChildren(...place.childNodes);
}
