/**
 * What JupyterLab loads of the extension `@planck-nb/lab`: a container as module federation defines it. It gets the
 * packages that the page shares and loads the extension with them. esbuild makes no such containers.
 */

/** The name of the extension, the digest in the name of its code and the packages it requires, which `build.py` fills in. */
declare const EXTENSION: string;
declare const FILE: string;
declare const SHARED: readonly string[];

interface Offer {
  get(): Promise<() => unknown>;
}

/** By the name of a package: what the page offers, by version. */
type Scope = Readonly<Record<string, Readonly<Record<string, Offer>>>>;

/** The code of the extension, given what `require` returns. */
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
