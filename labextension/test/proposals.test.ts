import assert from 'node:assert/strict';
import { test } from 'node:test';

import { apply, cellsOf, KEPT_OF_SET, KEPT_OUTPUTS, plan } from '../src/lab/review/proposals.ts';
import type { CellData, Operation, SharedCell } from '../src/lab/review/proposals.ts';

const code = (id: string, source = id, more: Partial<CellData> = {}): CellData => ({
  id,
  cell_type: 'code',
  source,
  metadata: {},
  outputs: [],
  execution_count: null,
  ...more,
});
const newId = (): string => 'new';
const abc = [code('a'), code('b'), code('c')];
const ids = (cells: readonly CellData[]): string => cells.map(({ id }) => id).join('');

/** A notebook like that of JupyterLab: inside a transaction its cells are still those before. */
class Notebook {
  readonly steps: string[] = [];
  data: CellData[];
  private inside = false;
  readonly undoManager = { stopCapturing: (): void => void this.steps.push('stop') };

  constructor(cells: readonly CellData[]) {
    this.data = [...cells];
  }

  get cells(): SharedCell[] {
    assert.equal(this.inside, false, 'cells are not read inside a transaction');
    return this.data.map((cell) => ({
      toJSON: () => cell,
      setSource: (source) => this.set(cell.id, { source }),
      setOutputs: (outputs) => this.set(cell.id, { outputs }),
    }));
  }

  set(id: string, change: Partial<CellData>): void {
    this.data = this.data.map((cell) => (cell.id === id ? { ...cell, ...change } : cell));
  }

  transact(change: () => void): void {
    this.steps.push('begin');
    this.inside = true;
    change();
    this.inside = false;
    this.steps.push('end');
  }

  insertCell(at: number, cell: CellData): void {
    this.data.splice(at, 0, cell);
  }

  deleteCell(at: number): void {
    this.data.splice(at, 1);
  }
}

test('a set is applied in its order, in one step of its own', () => {
  const set: Operation[] = [
    { kind: 'insert', cell: code('n', 'new'), after: ['b'] },
    { kind: 'move', id: 'a', before: 'a', after: ['n'] },
    { kind: 'change', id: 'a', before: 'a', source: 'A' },
    { kind: 'delete', id: 'b', before: 'b' },
  ];
  const notebook = new Notebook(abc);
  const planned = plan(cellsOf(notebook), set, newId);
  apply(notebook, planned, true);
  assert.equal(ids(notebook.data), 'nac');
  assert.equal(notebook.data[1]!.source, 'A');
  assert.equal(notebook.data[0]!.metadata['trusted'], true);
  assert.deepEqual(notebook.steps, ['stop', 'begin', 'end', 'stop']);
  apply(notebook, plan(cellsOf(notebook), planned.inverse, newId), false);
  assert.deepEqual(notebook.data.map(({ id, source }) => [id, source]), [['a', 'a'], ['b', 'b'], ['c', 'c']]);
});

for (const [reason, operation, cells] of [
  ['outdated', { kind: 'change', id: 'a', before: 'old', source: 'x' }, abc],
  ['outdated', { kind: 'delete', id: 'a', before: 'old' }, abc],
  ['outdated', { kind: 'move', id: 'a', before: 'old', after: [null] }, abc],
  ['gone', { kind: 'change', id: 'z', before: 'z', source: 'x' }, abc],
  ['doubled', { kind: 'change', id: 'a', before: 'a', source: 'x' }, [...abc, code('a')]],
  ['exists', { kind: 'insert', cell: code('a'), after: [null] }, abc],
  ['no place', { kind: 'insert', cell: code('n'), after: ['z'] }, abc],
  ['no place', { kind: 'move', id: 'a', before: 'a', after: ['a'] }, abc],
  ['not editable', { kind: 'change', id: 'a', before: 'a', source: 'x' }, [code('a', 'a', { metadata: { editable: false } })]],
  ['not deletable', { kind: 'delete', id: 'a', before: 'a' }, [code('a', 'a', { metadata: { deletable: false } })]],
] as const) {
  test(`${operation.kind}: ${reason}`, () => {
    const planned = plan(cells, [operation], newId);
    assert.deepEqual(planned.conflicts, [{ at: 0, reason }]);
    assert.equal(planned.cells, cells);
  });
}

test('a set that leaves no cell leaves an empty one, which goes when the set is taken back', () => {
  const planned = plan([code('a')], [{ kind: 'delete', id: 'a', before: 'a' }], newId);
  assert.deepEqual(planned.cells, [code('new', '')]);
  assert.deepEqual(plan(planned.cells, planned.inverse, newId).cells, [code('a')]);
  const typed = planned.cells.map((cell) => ({ ...cell, source: 'typed' }));
  assert.equal(ids(plan(typed, planned.inverse, newId).cells), 'anew');
});

test('outputs come back with a cell that was changed or deleted, unless they are very many', () => {
  const outputs = [{ output_type: 'stream', name: 'stdout', text: '1' }];
  const large = [{ output_type: 'stream', name: 'stdout', text: 'x'.repeat(KEPT_OUTPUTS) }];
  const cells = [code('a', 'a', { outputs, execution_count: 3 }), code('b', 'b', { outputs: large, execution_count: 4 })];
  for (const operation of [
    { kind: 'change', before: 'a', source: 'x' } as const,
    { kind: 'delete', before: 'a' } as const,
  ]) {
    const set = cells.map(({ id }) => ({ ...operation, id, before: id }));
    const planned = plan(cells, set, newId);
    const run = planned.cells.map((cell) => ({ ...cell, outputs: [], execution_count: 9 }));
    const back = plan(run, planned.inverse, newId).cells;
    assert.deepEqual(back, [cells[0], { ...cells[1], outputs: [], execution_count: null }]);
  }
});

test('the outputs of a whole set stay far below what servers take in one message', () => {
  const outputs = [{ output_type: 'stream', name: 'stdout', text: 'x'.repeat(KEPT_OUTPUTS - 100) }];
  const cells = [...'abcd'].map((id) => code(id, id, { outputs, execution_count: 1 }));
  const set = [
    ...['a', 'b', 'c'].map((id) => ({ kind: 'change', id, before: id, source: 'x' }) as const),
    { kind: 'delete', id: 'd', before: 'd' } as const,
  ];
  const { inverse } = plan(cells, set, newId);
  assert.deepEqual(inverse.map((each) => 'cleared' in each), [false, false, true, true]);
  assert.ok(JSON.stringify(inverse).length < KEPT_OF_SET + 1_000);
});

test('what a person did elsewhere stays when a set is taken back', () => {
  const planned = plan(abc, [{ kind: 'delete', id: 'b', before: 'b' }], newId);
  const later = [code('c', 'typed'), code('p'), code('a')];
  assert.deepEqual(plan(later, planned.inverse, newId).cells, [...later, code('b')]);
  const changed = plan(abc, [{ kind: 'change', id: 'b', before: 'b', source: 'x' }], newId);
  assert.deepEqual(plan([code('b', 'typed')], changed.inverse, newId).conflicts, [{ at: 0, reason: 'outdated' }]);
});

test('cells with the same id stay as they are when another cell changes', () => {
  const notebook = new Notebook([code('d', 'one'), code('a'), code('d', 'two')]);
  const set: Operation[] = [{ kind: 'move', id: 'a', before: 'a', after: [null] }];
  apply(notebook, plan(cellsOf(notebook), set, newId), false);
  assert.deepEqual(notebook.data.map(({ source }) => source), ['a', 'one', 'two']);
});

test('a set finds its cells after a person moved, split or merged others, and not those', () => {
  const set: Operation[] = [{ kind: 'change', id: 'b', before: 'b\nb', source: 'B' }];
  const reasons = (...cells: CellData[]): string[] => plan(cells, set, newId).conflicts.map(({ reason }) => reason);
  assert.deepEqual(reasons(code('c'), code('b', 'b\nb'), code('a')), []);
  assert.deepEqual(reasons(code('a'), code('b', 'b'), code('half', 'b')), ['outdated']);
  assert.deepEqual(reasons(code('a'), code('b', 'b\nb\nc')), ['outdated']);
  assert.deepEqual(reasons(code('a', 'a\nb\nb')), ['gone']);
});

test('raw and Markdown cells are changed and deleted as texts', () => {
  for (const type of ['raw', 'markdown']) {
    const cells = [{ id: 'a', cell_type: type, source: 'a', metadata: { format: 'text/x-rst' } }, code('b')];
    const set: Operation[] = [
      { kind: 'change', id: 'a', before: 'a', source: 'x', outputs: [1], execution_count: 1 },
      { kind: 'delete', id: 'a', before: 'x' },
    ];
    const changed = plan(cells, set.slice(0, 1), newId);
    assert.deepEqual(changed.cells[0], { ...cells[0], source: 'x' });
    assert.equal(changed.restored.size, 0);
    const planned = plan(cells, set, newId);
    assert.deepEqual(plan(planned.cells, planned.inverse, newId).cells, cells);
  }
});
