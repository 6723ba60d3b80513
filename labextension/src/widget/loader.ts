/**
 * The anywidget module of every view. It is sent with each of them, so it contains only what gets the code of the views:
 * from what the page has already, from a JupyterLab extension that is installed, or from the kernel of a view.
 */

/** The name and the digest of the code of the views, which `build.py` fills in. */
declare const FILE: string;
/** The JupyterLab extension that may contain the same files, so that no kernel has to send them. */
declare const EXTENSION: string;

const LATE_MS = 10_000;
/** How long a kernel that is asked has to answer before the next one is asked, at first. */
const PAUSE_MS = 2000;

export interface Model {
  get(name: 'code'): DataView<ArrayBuffer> | null;
  on(event: 'msg:custom', callback: (message: { file?: string }, buffers: DataView<ArrayBuffer>[]) => void): void;
  send(message: { type: 'load'; file: string }): void;
}

export interface Context {
  readonly model: Model;
  readonly el: HTMLElement;
}

type Render = (context: Context) => () => void;

/**
 * Get a file of this package, an ES module, for a view; `code` is the file if the view has brought it. Returns the
 * module, and a function to call when the view ends. A page loads a file only once.
 */
export type Load = (
  file: string,
  model: Model,
  code?: DataView<ArrayBuffer> | null,
) => readonly [Promise<never>, () => void];

/** By file: has a view wait for it. */
type Page = Record<string, (model: Model, code: Parameters<Load>[2]) => ReturnType<Load>>;

const load: Load = (file, model, code) =>
  (((globalThis as { planckNb?: Page }).planckNb ??= {})[file] ??= share(file))(model, code);

function share(file: string): Page[string] {
  const views = new Set<Model>();
  let asking: Model | undefined;
  let timer: number | undefined;
  let pause = PAUSE_MS;
  /** One view requests the file. If it gets no answer for a while, or ends, the next one does. None does if `pause` is 0. */
  const ask = (first: Iterable<Model> = views): void => {
    clearTimeout(timer);
    [asking] = pause ? first : [];
    if (!asking) return;
    views.delete(asking);
    timer = setTimeout(() => {
      pause *= 2;
      ask();
    }, pause);
    asking.send({ type: 'load', file }); // throws if its kernel is gone: then it is not asked again
    views.add(asking);
  };
  let use!: (url: string) => unknown;
  const loaded = new Promise<never>((resolve) => {
    use = async (url) => (resolve((await import(url)) as never), (pause = 0));
  });
  const offer = (code: DataView<ArrayBuffer> | null | undefined): unknown =>
    code?.byteLength && (pause = 0, use(URL.createObjectURL(new Blob([code], { type: 'text/javascript' }))));
  const extension = (async () => {
    const config = (document.getElementById('jupyter-config-data') as HTMLScriptElement).text;
    if (config.includes(EXTENSION))
      await use(JSON.parse(config).fullLabextensionsUrl + `/${EXTENSION}/static/${file}.js`);
  })().catch(() => 0);
  return (model, code) => {
    views.add(model);
    model.on('msg:custom', (message, [code]) => message.file === file && offer(code));
    offer(code);
    extension.then(() => {
      // At once, unless another view has only just asked: that one's kernel may be busy for hours.
      if (asking && pause <= PAUSE_MS) return;
      pause &&= PAUSE_MS;
      ask([model]);
    });
    return [
      loaded,
      (): void => {
        views.delete(model);
        if (asking === model) ask();
      },
    ] as const;
  };
}

/** `render` is for the module itself: a parameter is shorter than a variable, and each view has this code. */
export default (render?: Promise<Render>) => ({
  initialize(context: Context) {
    const [loaded, leave] = load(FILE, context.model, context.model.get('code'));
    render = loaded.then((module: { default(context: Context, load: Load): Render }) => module.default(context, load));
    return leave;
  },
  async render(context: Context) {
    const { el } = context;
    const timer = setTimeout(() => (el.textContent = 'Waits for the kernel; try %planck answer.'), LATE_MS);
    const draw = await render!;
    clearTimeout(timer);
    el.textContent = '';
    return draw(context);
  },
});
