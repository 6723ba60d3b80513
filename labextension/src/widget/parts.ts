/** Parts of the code that few views need, such as a large library. They are loaded as the code itself is. */

import { onKernelEnd } from '../view/kernel-status.ts';
import type { Widget } from '../view/kernel-status.ts';
import type { Load, Model } from './loader.ts';

export type PartModel = Model & Widget;

export type { Load };

/** The files of the parts by name, which `build.py` fills in. */
declare const PARTS: Readonly<Record<string, string>>;

interface Source {
  readonly model: PartModel;
  readonly load: Load;
  /** Requests of parts that this source takes part in, to be given up when its kernel ends. */
  readonly leave: Set<() => void>;
}

/** The newest first: it is asked first, because a kernel that is gone without a word would never answer. */
const sources: Source[] = [];
const loading = new Map<string, { readonly part: Promise<unknown>; from(source: Source): void }>();

/**
 * Let parts come from the kernel of this model, too, until it ends. Returns a function to call when the model is no
 * longer needed for that: a page keeps the models of all its views.
 */
export function partsFrom(load: Load, model: PartModel): () => void {
  const source: Source = { model, load, leave: new Set() };
  sources.unshift(source);
  const end = (): void => {
    unfollow();
    const at = sources.indexOf(source);
    if (at >= 0) sources.splice(at, 1);
    source.leave.forEach((leave) => leave());
    source.leave.clear();
  };
  // Other frontends do not say whether a kernel has ended or is only connected again.
  const unfollow = model.widget_manager?.kernel ? onKernelEnd(model, end) : onClose(model, end);
  for (const { from } of loading.values()) from(source);
  return end;
}

function onClose(model: PartModel, listener: () => void): () => void {
  model.on('comm:close', listener);
  return () => model.off('comm:close', listener);
}

/**
 * Load a part, an ES module in `src/parts/`; each page does so once. The promise is pending until a kernel has time to
 * answer, so show something without the part meanwhile.
 */
export function loadPart<T>(name: string): Promise<T> {
  const known = loading.get(name);
  if (known) return known.part as Promise<T>;
  const file = PARTS[name];
  if (!file) return Promise.reject(new Error(`There is no part ${name} of the views.`));
  let resolve: (part: T) => void;
  const part = new Promise<T>((done) => {
    resolve = done;
  });
  const from = ({ model, load, leave }: Source): void => {
    const [loaded, end] = load(file, model);
    leave.add(end);
    void loaded.then((part) => {
      leave.delete(end);
      resolve(part);
    });
  };
  loading.set(name, { part, from });
  sources.forEach(from);
  void part.then(() => loading.set(name, { part, from: () => {} }));
  return part;
}
