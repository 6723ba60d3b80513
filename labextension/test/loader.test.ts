/** How a page gets the code of its views: which view requests it, and what happens when that one ends. */

import assert from 'node:assert/strict';
import { mkdtempSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, mock, test } from 'node:test';
import { pathToFileURL } from 'node:url';

const CODE = 'export default () => () => "drawn";';
const FILE = 'live-1';
const page = globalThis as unknown as Record<string, unknown>;
let config = '{}';
let copies = 0;

Object.assign(page, {
  FILE,
  EXTENSION: '@planck-nb/lab',
  document: { getElementById: () => ({ text: config }) },
});
URL.createObjectURL = () => `data:text/javascript,${encodeURIComponent(CODE)}`;

/** A view's model in a page: what it has requested, and how to answer and to end it. */
class View {
  readonly requests: string[] = [];
  readonly el = { textContent: '' };
  readonly leave: () => void;
  /** The kernel has ended, and the widget was not told so. */
  isKernelGone = false;
  private answers: (message: { file?: string }, buffers: DataView<ArrayBuffer>[]) => void = () => {};
  private readonly widget: { initialize(context: object): () => void; render(context: object): Promise<unknown> };

  constructor(loader: { default(): View['widget'] }, code: string = '') {
    this.widget = loader.default();
    this.leave = this.widget.initialize({ model: this.model(code), el: this.el });
  }

  private model(code: string): object {
    return {
      get: () => bytes(code),
      on: (_: string, callback: View['answers']) => (this.answers = callback),
      send: ({ file }: { file: string }) => {
        if (this.isKernelGone) throw new Error('Cannot send');
        this.requests.push(file);
      },
    };
  }

  answer(file: string = FILE): void {
    this.answers({ file }, [bytes(CODE)]);
  }

  draw(): Promise<unknown> {
    return this.widget.render({ el: this.el });
  }
}

function bytes(text: string): DataView<ArrayBuffer> {
  return new DataView(new TextEncoder().encode(text).buffer as ArrayBuffer);
}

/** The loader in a page that has no code yet. */
async function freshLoader(): Promise<{ default(): never }> {
  delete page['planckNb'];
  copies += 1;
  return (await import(`../src/widget/loader.ts?copy=${copies}`)) as { default(): never };
}

/** Let what waits for no timer happen. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout'] });
  config = '{}';
});

test('one view of the page requests the code, and its answer is for all', async () => {
  const loader = await freshLoader();
  const views = [new View(loader), new View(loader), new View(loader)];
  await settle();
  assert.deepEqual(views.map(({ requests }) => requests), [[FILE], [], []]);
  views[0]?.answer();
  assert.deepEqual(await Promise.all(views.map((view) => view.draw())), ['drawn', 'drawn', 'drawn']);
  mock.timers.tick(60_000);
  assert.deepEqual(views.map(({ requests }) => requests.length), [1, 0, 0]);
});

test('if the view that asks ends, the next one asks at once', async () => {
  const loader = await freshLoader();
  const [first, second] = [new View(loader), new View(loader)];
  await settle();
  first.leave();
  assert.deepEqual(second.requests, [FILE]);
  second.answer();
  assert.equal(await second.draw(), 'drawn');
});

test('if a view that does not ask ends, nobody asks again', async () => {
  const loader = await freshLoader();
  const [first, second] = [new View(loader), new View(loader)];
  await settle();
  second.leave();
  assert.deepEqual(first.requests, [FILE]);
});

test('without an answer the views ask in turn, and more and more rarely', async () => {
  const loader = await freshLoader();
  const views = [new View(loader), new View(loader)];
  await settle();
  const asked = (): number[] => views.map(({ requests }) => requests.length);
  mock.timers.tick(1_999);
  assert.deepEqual(asked(), [1, 0]);
  mock.timers.tick(1);
  assert.deepEqual(asked(), [1, 1]);
  mock.timers.tick(4_000);
  assert.deepEqual(asked(), [2, 1]);
});

test('a view whose kernel is gone without a word does not keep the others from asking', async () => {
  const loader = await freshLoader();
  const first = new View(loader);
  await settle();
  first.isKernelGone = true;
  assert.throws(() => mock.timers.tick(2000), /Cannot send/); // it is the only view, so it asks again
  const second = new View(loader);
  await settle();
  assert.deepEqual(second.requests, [FILE]);
  second.answer();
  await settle();
  assert.equal(typeof (await second.draw()), 'string');
});

test('a view asks at once, and again soon, however long a busy kernel has not answered another one', async () => {
  const loader = await freshLoader();
  const busy = new View(loader);
  await settle();
  for (let minutes = 0; minutes < 60; minutes += 1) mock.timers.tick(60_000);
  const second = new View(loader);
  await settle();
  assert.deepEqual(second.requests, [FILE]);
  const third = new View(loader); // it is only a moment since the second one asked
  await settle();
  assert.deepEqual(third.requests, []);
  for (const pause of [2_000, 4_000, 8_000]) mock.timers.tick(pause); // after both others
  assert.deepEqual(third.requests, [FILE]);
  assert.ok(busy.requests.length < 15);
  third.answer();
  assert.equal(await busy.draw(), 'drawn');
});

test('an answer about another file is none', async () => {
  const loader = await freshLoader();
  const view = new View(loader);
  await settle();
  view.answer('live-2');
  mock.timers.tick(2_000);
  assert.equal(view.requests.length, 2);
});

test('after the deadline one sentence stands in the place of the view, until the code comes', async () => {
  const loader = await freshLoader();
  const view = new View(loader);
  await settle();
  const drawn = view.draw();
  mock.timers.tick(9_999);
  assert.equal(view.el.textContent, '');
  mock.timers.tick(1);
  assert.equal(view.el.textContent, 'Waits for the kernel; try %planck answer.');
  view.answer();
  assert.equal(await drawn, 'drawn');
  assert.equal(view.el.textContent, '');
});

test('a view that brings the code along requests nothing', async () => {
  const loader = await freshLoader();
  const [first, second] = [new View(loader, CODE), new View(loader)];
  await settle();
  assert.deepEqual(await Promise.all([first.draw(), second.draw()]), ['drawn', 'drawn']);
  assert.deepEqual([...first.requests, ...second.requests], []);
});

test('an extension that is installed has the code, so that no kernel is asked', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'labextensions-'));
  mkdirSync(join(folder, '@planck-nb/lab/static'), { recursive: true });
  writeFileSync(join(folder, '@planck-nb/lab/static', `${FILE}.js`), CODE.replace('drawn', 'of the extension'));
  const url = pathToFileURL(folder).href;
  config = JSON.stringify({ fullLabextensionsUrl: url, federated_extensions: [{ name: '@planck-nb/lab' }] });
  const loader = await freshLoader();
  const view = new View(loader);
  assert.equal(await view.draw(), 'of the extension');
  await settle();
  assert.deepEqual(view.requests, []);
});

test('an extension of another version does not have the file, so the kernel is asked', async () => {
  const url = pathToFileURL(mkdtempSync(join(tmpdir(), 'labextensions-'))).href;
  config = JSON.stringify({ fullLabextensionsUrl: url, federated_extensions: [{ name: '@planck-nb/lab' }] });
  const loader = await freshLoader();
  const view = new View(loader);
  await settle();
  assert.deepEqual(view.requests, [FILE]);
});
