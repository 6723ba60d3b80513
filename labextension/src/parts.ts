/** Parts of the code that few views need, such as a large library. They are loaded as the code itself is. */

import type { Load, Model } from './loader.ts';

export interface PartModel extends Model {
  on(event: 'msg:custom', callback: (message: { file?: string }, buffers: DataView<ArrayBuffer>[]) => void): void;
  on(event: 'comm:close', callback: () => void): void;
}

export type { Load };

/** The files of the parts by name, which `build.py` fills in. */
declare const PARTS: Readonly<Record<string, string>>;

const models = new Map<PartModel, Load>();
const loading = new Map<string, { readonly part: Promise<unknown>; from(model: PartModel, load: Load): void }>();

/** Let parts come from the kernel of this model, too, from now on. */
export function partsFrom(load: Load, model: PartModel): void {
  models.set(model, load);
  model.on('comm:close', () => models.delete(model));
  for (const { from } of loading.values()) from(model, load);
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
  const from = (model: PartModel, load: Load): void => {
    void load(file, model)[0].then(resolve);
  };
  loading.set(name, { part, from });
  models.forEach((load, model) => from(model, load));
  void part.then(() => loading.set(name, { part, from: () => {} }));
  return part;
}
