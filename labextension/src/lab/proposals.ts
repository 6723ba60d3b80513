/**
 * Sets with changes to a notebook's cells: obstacles, the notebook afterwards, and the set to take them back. Without DOM
 * and without JupyterLab.
 *
 * Cells are named by their ids. A change carries its original source, and a place is given by the cells before it, so a
 * person's work in the meantime leads to a conflict and never to a wrong place.
 */

/** A cell as in a notebook file. */
export interface CellData {
  readonly id: string;
  readonly cell_type: string;
  readonly source: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly outputs?: readonly unknown[];
  readonly execution_count?: number | null;
}

/** Ids for the cell before, or null for the beginning. The first existing one counts. */
export type Place = readonly (string | null)[];

export interface Insert {
  readonly kind: 'insert';
  readonly cell: CellData;
  readonly after: Place;
}

export interface Change {
  readonly kind: 'change';
  readonly id: string;
  /** Its original source. */
  readonly before: string;
  readonly source: string;
  /** What a run left in the cell, if it is to be set as well. */
  readonly outputs?: readonly unknown[];
  readonly execution_count?: number | null;
}

export interface Move {
  readonly kind: 'move';
  readonly id: string;
  /** The cell's source when this was written; null if it does not matter. */
  readonly before: string | null;
  readonly after: Place;
}

export interface Delete {
  readonly kind: 'delete';
  readonly id: string;
  readonly before: string;
  /** Whether a changed cell stays without a conflict. */
  readonly optional?: boolean;
}

export type Operation = Insert | Change | Move | Delete;

/** Why an operation cannot be applied. */
export type Reason = 'outdated' | 'gone' | 'doubled' | 'exists' | 'no place' | 'not editable' | 'not deletable';

export interface Conflict {
  /** The operation's index in the set. */
  readonly at: number;
  readonly reason: Reason;
}

/** What a set does to a notebook. */
export interface Plan {
  readonly conflicts: readonly Conflict[];
  /** All cells afterwards, in their order; those before if there are conflicts. */
  readonly cells: readonly CellData[];
  /** Cells which leave their place: deleted ones and moved ones. */
  readonly taken: ReadonlySet<string>;
  /** The cells whose outputs are set. */
  readonly restored: ReadonlySet<string>;
  /** The set to take this one back. */
  readonly inverse: readonly Operation[];
}

/** Characters above which a cell's outputs are not kept. */
export const KEPT_OUTPUTS = 1_000_000;
/** Cells before a cell by which its place is kept. */
const KEPT_PLACES = 200;

/** Find out what a set does to these cells. Operations follow one another; `newId` names a necessary extra cell. */
export function plan(cells: readonly CellData[], set: readonly Operation[], newId: () => string): Plan {
  const draft = new Draft(cells);
  const conflicts: Conflict[] = [];
  set.forEach((operation, at) => {
    const reason = draft.apply(operation);
    if (reason !== null) conflicts.push({ at, reason });
  });
  if (conflicts.length > 0)
    return { conflicts, cells, taken: new Set(), restored: new Set(), inverse: [] };
  if (draft.cells.length === 0) draft.apply(emptyCell(newId())); // else JupyterLab adds one, which undo cannot remove
  return { conflicts, cells: draft.cells, taken: draft.taken, restored: draft.restored, inverse: draft.inverse };
}

function emptyCell(id: string): Insert {
  const cell = { id, cell_type: 'code', source: '', metadata: {}, outputs: [], execution_count: null };
  return { kind: 'insert', cell, after: [null] };
}

class Draft {
  readonly cells: CellData[];
  readonly taken = new Set<string>();
  readonly restored = new Set<string>();
  readonly inverse: Operation[] = [];

  constructor(cells: readonly CellData[]) {
    this.cells = [...cells];
  }

  /** Apply an operation. Returns the obstacle, null without one. */
  apply(operation: Operation): Reason | null {
    switch (operation.kind) {
      case 'insert':
        return this.insert(operation);
      case 'change':
        return this.change(operation);
      case 'move':
        return this.move(operation);
      case 'delete':
        return this.delete(operation);
    }
  }

  private insert({ cell, after }: Insert): Reason | null {
    if (this.cells.some(({ id }) => id === cell.id)) return 'exists';
    const place = this.placeOf(after);
    if (place === null) return 'no place';
    this.cells.splice(place, 0, cell);
    this.inverse.unshift({ kind: 'delete', id: cell.id, before: cell.source, ...(isEmpty(cell) && { optional: true }) });
    return null;
  }

  private change(operation: Change): Reason | null {
    const at = this.find(operation.id);
    if (typeof at !== 'number') return at;
    const cell = this.cells[at]!;
    if (cell.source !== operation.before) return 'outdated';
    if (cell.metadata['editable'] === false) return 'not editable';
    const { outputs, execution_count: count = null } = operation;
    const isRestored = outputs !== undefined && cell.cell_type === 'code';
    if (isRestored) this.restored.add(cell.id);
    this.cells[at] = { ...cell, source: operation.source, ...(isRestored && { outputs, execution_count: count }) };
    this.inverse.unshift({
      kind: 'change',
      id: cell.id,
      before: operation.source,
      source: cell.source,
      ...(cell.cell_type === 'code' && kept(cell)),
    });
    return null;
  }

  private move({ id, before, after }: Move): Reason | null {
    const at = this.find(id);
    if (typeof at !== 'number') return at;
    const cell = this.cells[at]!;
    if (before !== null && cell.source !== before) return 'outdated';
    const back = this.placeBefore(at);
    this.cells.splice(at, 1);
    const place = this.placeOf(after);
    if (place === null) {
      this.cells.splice(at, 0, cell);
      return 'no place';
    }
    this.cells.splice(place, 0, cell);
    this.taken.add(id);
    this.inverse.unshift({ kind: 'move', id, before: null, after: back });
    return null;
  }

  private delete({ id, before, optional = false }: Delete): Reason | null {
    const at = this.find(id);
    if (typeof at !== 'number') return optional ? null : at;
    const cell = this.cells[at]!;
    if (cell.source !== before) return optional ? null : 'outdated';
    if (cell.metadata['deletable'] === false) return optional ? null : 'not deletable';
    this.inverse.unshift({
      kind: 'insert',
      cell: cell.cell_type === 'code' ? { ...cell, ...kept(cell) } : cell,
      after: this.placeBefore(at),
    });
    this.cells.splice(at, 1);
    this.taken.add(id);
    return null;
  }

  private find(id: string): number | Reason {
    const at = this.cells.findIndex((cell) => cell.id === id);
    if (at < 0) return 'gone';
    return this.cells.findLastIndex((cell) => cell.id === id) === at ? at : 'doubled';
  }

  /** The index behind the first existing cell; null without one. */
  private placeOf(after: Place): number | null {
    for (const id of after) {
      if (id === null) return 0;
      const at = this.cells.findIndex((cell) => cell.id === id);
      if (at >= 0) return at + 1;
    }
    return null;
  }

  /** The cells before this index, the nearest first. */
  private placeBefore(at: number): Place {
    const before = this.cells.slice(Math.max(0, at - KEPT_PLACES), at).map(({ id }) => id);
    return [...before.reverse(), null];
  }
}

function isEmpty(cell: CellData): boolean {
  return cell.source === '';
}

/** A cell's outputs to keep. With very long ones, the cell counts as not executed. */
function kept({ outputs = [], execution_count: count = null }: CellData): Pick<CellData, 'outputs' | 'execution_count'> {
  if (JSON.stringify(outputs).length > KEPT_OUTPUTS) return { outputs: [], execution_count: null };
  return { outputs, execution_count: count };
}

/** The part which `apply` needs from a notebook's shared model. */
export interface SharedNotebook {
  readonly cells: readonly SharedCell[];
  readonly undoManager?: { stopCapturing(): void };
  transact(change: () => void): void;
  insertCell(index: number, cell: CellData): unknown;
  deleteCell(index: number): void;
}

export interface SharedCell {
  toJSON(): CellData;
  setSource(source: string): void;
  setOutputs?(outputs: readonly unknown[]): void;
  execution_count?: number | null;
}

/** A notebook's cells, each source as one text. */
export function cellsOf(notebook: SharedNotebook): CellData[] {
  return notebook.cells.map((cell) => {
    const data = cell.toJSON();
    return Array.isArray(data.source) ? { ...data, source: (data.source as string[]).join('') } : data;
  });
}

/**
 * Bring a notebook into the planned state, in one step for undo. A new cell in a trusted notebook is trusted.
 *
 * The transaction only writes: positions read in it would be those before it. A moving cell is deleted and inserted.
 */
export function apply(notebook: SharedNotebook, { cells, taken, restored }: Plan, trusted: boolean): void {
  const before = notebook.cells.map((cell) => [cell, cell.toJSON().id] as const);
  const held = new Map(before.filter(([, id]) => !taken.has(id)).map(([cell, id]) => [id, cell]));
  const sources = new Map(cellsOf(notebook).map(({ id, source }) => [id, source]));
  notebook.undoManager?.stopCapturing();
  notebook.transact(() => {
    for (let at = before.length - 1; at >= 0; at--) if (taken.has(before[at]![1])) notebook.deleteCell(at);
    cells.forEach((cell, at) => {
      const there = held.get(cell.id);
      if (there === undefined) notebook.insertCell(at, trusted ? withTrust(cell) : cell);
      else {
        if (sources.get(cell.id) !== cell.source) there.setSource(cell.source);
        if (restored.has(cell.id)) {
          there.setOutputs?.(cell.outputs ?? []);
          there.execution_count = cell.execution_count ?? null;
        }
      }
    });
  });
  notebook.undoManager?.stopCapturing();
}

/** The cell with JupyterLab's mark for trust, which it does not save. */
function withTrust(cell: CellData): CellData {
  return { ...cell, metadata: { ...cell.metadata, trusted: true } };
}
