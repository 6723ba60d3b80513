/** Which kernels a page asks for the parts of the code that few views need. */

import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';

import type { Load } from '../src/widget/loader.ts';
import type { PartModel } from '../src/widget/parts.ts';

const FILE = 'mathematics-1';
const page = globalThis as unknown as Record<string, unknown>;
let copies = 0;

Object.assign(page, {
  FILE: 'live-1',
  EXTENSION: '@planck-nb/lab',
  PARTS: { mathematics: FILE },
  document: { getElementById: () => ({ textContent: '{}' }) },
});
URL.createObjectURL = () => 'data:text/javascript,export const drawn = "by the part"';

type Answer = (message: { file?: string }, buffers: DataView<ArrayBuffer>[]) => void;

/** The model of a view, and the kernel that it comes from. */
class View {
  readonly requests: string[] = [];
  /** The code of the views, which the first view of a kernel brings along. */
  code: DataView | null = null;
  private readonly answers: Answer[] = [];
  private readonly listeners = new Set<() => void>();
  private readonly closing = new Set<() => void>();

  get isObserved(): boolean {
    return this.listeners.size + this.closing.size > 0;
  }

  get model(): PartModel {
    const disposed = {
      connect: (slot: () => void) => this.listeners.add(slot),
      disconnect: (slot: () => void) => this.listeners.delete(slot),
    };
    return {
      get: () => this.code,
      on: (event: string, callback: Answer & (() => void)) => {
        if (event === 'msg:custom') this.answers.push(callback);
        else this.closing.add(callback);
      },
      off: (_: string, callback: () => void) => this.closing.delete(callback),
      send: ({ file }: { file: string }) => this.requests.push(file),
      widget_manager: { kernel: { disposed, statusChanged: { connect() {}, disconnect() {} } } },
    } as unknown as PartModel;
  }

  answer(): void {
    for (const answer of this.answers) answer({ file: FILE }, [new DataView(new ArrayBuffer(1))]);
  }

  endKernel(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

interface Parts {
  partsFrom(load: Load, model: PartModel): () => void;
  loadPart(name: string): Promise<{ drawn: string }>;
}

/** The module and the loader of a page that has loaded nothing yet. */
async function freshPage(): Promise<Parts & { add(): View & { leave(): void } }> {
  delete page['planckNb'];
  copies += 1;
  const parts = (await import(`../src/widget/parts.ts?copy=${copies}`)) as Parts;
  const loader = (await import(`../src/widget/loader.ts?parts=${copies}`)) as {
    default(): { initialize(context: object): () => void; render(context: object): Promise<unknown> };
  };
  // The loader hands its function to the code of the views, which stands in here for all of it.
  const widget = loader.default();
  let load!: Load;
  page['handOver'] = (given: Load) => (load = given);
  const code = 'data:text/javascript,export default (_, load) => { globalThis.handOver(load); return () => {}; }';
  const first = URL.createObjectURL;
  URL.createObjectURL = () => code;
  widget.initialize({ model: { get: () => new DataView(new ArrayBuffer(1)), on: () => {}, send: () => {} } });
  await widget.render({ el: {} });
  URL.createObjectURL = first;
  return {
    ...parts,
    add: () => {
      const view = new View();
      return Object.assign(view, { leave: parts.partsFrom(load, view.model) });
    },
  };
}

/** Let what waits for no timer happen. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout'] });
});

test('the newest view requests a part, and its answer is for all', async () => {
  const { add, loadPart } = await freshPage();
  const views = [add(), add(), add()];
  const part = loadPart('mathematics');
  await settle();
  assert.deepEqual(views.map(({ requests }) => requests), [[], [], [FILE]]);
  views[2]?.answer();
  assert.equal((await part).drawn, 'by the part');
});

test('a view that brings the code of the views along does not bring a part', async () => {
  const { add, loadPart } = await freshPage();
  const view = add();
  view.code = new DataView(new ArrayBuffer(1));
  const part = loadPart('mathematics');
  await settle();
  assert.deepEqual(view.requests, [FILE]);
  view.answer();
  assert.equal((await part).drawn, 'by the part');
});

test('a view that has left is not asked, and nothing listens for the end of its kernel', async () => {
  const { add, loadPart } = await freshPage();
  const views = [add(), add()];
  views[1]?.leave();
  const part = loadPart('mathematics');
  await settle();
  assert.deepEqual(views.map(({ requests }) => requests), [[FILE], []]);
  assert.deepEqual(views.map(({ isObserved }) => isObserved), [true, false]);
  views[0]?.leave();
  const third = add();
  await settle();
  assert.deepEqual(third.requests, [FILE]);
  third.answer();
  assert.equal((await part).drawn, 'by the part');
});

test('the views of kernels that have ended are not asked', async () => {
  const { add, loadPart } = await freshPage();
  const alive = add();
  const ended = [add(), add(), add(), add(), add(), add()];
  ended.slice(0, 3).forEach((view) => view.endKernel());
  const part = loadPart('mathematics');
  await settle();
  ended.slice(3).forEach((view) => view.endKernel());
  await settle();
  assert.deepEqual(alive.requests, [FILE], 'at once, however many have ended while they were asked');
  mock.timers.tick(2_000);
  assert.deepEqual(alive.requests, [FILE, FILE], 'what has ended does not make the next request later');
  assert.deepEqual(ended.slice(0, 3).flatMap(({ requests }) => requests), []);
  alive.answer();
  assert.equal((await part).drawn, 'by the part');
});

test('a view that comes while a part is awaited may be asked for it, too', async () => {
  const { add, loadPart } = await freshPage();
  const part = loadPart('mathematics');
  await settle();
  const view = add();
  await settle();
  assert.deepEqual(view.requests, [FILE]);
  view.answer();
  assert.equal((await part).drawn, 'by the part');
});
