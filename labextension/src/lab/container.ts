/**
 * The part which JupyterLab loads first: a container as in module federation. It gets the page's shared packages and
 * loads the extension with them. esbuild cannot make such containers.
 */

/** The extension's name, its code's file and its packages, filled in by `build.py`. */
declare const EXTENSION: string;
declare const FILE: string;
declare const SHARED: readonly string[];

interface Offer {
  get(): Promise<() => unknown>;
}

/** The page's offers by package and version. */
type Scope = Readonly<Record<string, Readonly<Record<string, Offer>>>>;

/** The extension's code. */
type Code = { default(require: (name: string) => unknown): object };

let scope: Scope = {};
let made: Promise<object> | undefined;
const code = new URL(`${FILE}.js`, (document.currentScript as HTMLScriptElement).src).href;

async function load(): Promise<object> {
  const packages = new Map<string, unknown>();
  await Promise.all(
    SHARED.map(async (name) => {
      const offer = newest(scope[name]);
      if (!offer) throw new Error(`${EXTENSION} needs JupyterLab 4.4 or later: this page has no ${name}.`);
      packages.set(name, (await offer.get())());
    }),
  );
  const { default: make } = (await import(code)) as Code;
  return make((name) => packages.get(name));
}

function newest(versions: Scope[string] | undefined): Offer | undefined {
  const compare = (one: string, other: string): number => one.localeCompare(other, 'en', { numeric: true });
  return versions?.[Object.keys(versions).sort(compare).at(-1) ?? ''];
}

((globalThis as { _JUPYTERLAB?: Record<string, unknown> })._JUPYTERLAB ??= {})[EXTENSION] = {
  init(shared: Scope): void {
    scope = shared;
  },
  async get(): Promise<() => object> {
    const module = await (made ??= load());
    return () => module;
  },
};
