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
  /** Whether the cell had longer outputs than are kept. */
  readonly cleared?: boolean;
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
  /** Whether the cell had longer outputs than are kept. */
  readonly cleared?: boolean;
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

/** Characters above which a cell's outputs are not kept, and those of a whole set: servers refuse messages above 10 MB. */
export const KEPT_OUTPUTS = 1_000_000;
export const KEPT_OF_SET = 2_000_000;
/** Cells before a cell by which its place is kept. */
const KEPT_PLACES = 200;

/** Find out what a set does to these cells. Operations follow one another; `newId` names a necessary extra cell. */
export function plan(cells: readonly CellData[], set: readonly Operation[], newId: () => string): Plan {
  const draft = new Draft(cells);
  const conflicts = draft.applyAll(set);
  if (conflicts.length > 0)
    return { conflicts, cells, taken: new Set(), restored: new Set(), inverse: [] };
  if (draft.cells.length === 0) draft.apply(emptyCell(newId())); // else JupyterLab adds one, which undo cannot remove
  const { taken, restored } = draft;
  return { conflicts, cells: draft.cells, taken, restored, inverse: inverseOf(cells, draft) };
}

/** What is in the way of a set. Cells need no outputs for it. */
export function conflictsOf(cells: readonly CellData[], set: readonly Operation[]): readonly Conflict[] {
  return new Draft(cells).applyAll(set);
}

/** The set to take a draft back. Cells return in their original order, each behind the cells which were before it. */
function inverseOf(before: readonly CellData[], { cells, taken, changed }: Draft): Operation[] {
  const inverse: Operation[] = [];
  const now = new Map(cells.map((cell) => [cell.id, cell]));
  const earlier = new Set(before.map(({ id }) => id));
  const kept = new KeptOutputs();
  for (const cell of cells)
    if (!earlier.has(cell.id))
      inverse.push({ kind: 'delete', id: cell.id, before: cell.source, ...(cell.source === '' && { optional: true }) });
  before.forEach((cell, at) => {
    const { id, source } = cell;
    const there = now.get(id);
    if (there === undefined) {
      const { cleared, ...results } = kept.of(cell);
      inverse.push({ kind: 'insert', cell: { ...cell, ...results }, after: placeOf(before, at), ...(cleared && { cleared }) });
    } else if (taken.has(id)) inverse.push({ kind: 'move', id, before: null, after: placeOf(before, at) });
    if (there !== undefined && changed.has(id))
      inverse.push({ kind: 'change', id, before: there.source, source, ...kept.of(cell) });
  });
  return inverse;
}

/** The cells before this one, the nearest first. */
function placeOf(cells: readonly CellData[], at: number): Place {
  const before = cells.slice(Math.max(0, at - KEPT_PLACES), at).map(({ id }) => id);
  return [...before.reverse(), null];
}

function emptyCell(id: string): Insert {
  const cell = { id, cell_type: 'code', source: '', metadata: {}, outputs: [], execution_count: null };
  return { kind: 'insert', cell, after: [null] };
}

class Draft {
  readonly cells: CellData[];
  readonly taken = new Set<string>();
  readonly restored = new Set<string>();
  readonly changed = new Set<string>();

  private readonly doubled = new Set<string>();

  constructor(cells: readonly CellData[]) {
    this.cells = [...cells];
    const seen = new Set<string>();
    for (const { id } of cells) (seen.has(id) ? this.doubled : seen).add(id);
  }

  applyAll(set: readonly Operation[]): Conflict[] {
    return set.flatMap((operation, at) => {
      const reason = this.apply(operation);
      return reason === null ? [] : [{ at, reason }];
    });
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
    this.changed.add(cell.id);
    return null;
  }

  private move({ id, before, after }: Move): Reason | null {
    const at = this.find(id);
    if (typeof at !== 'number') return at;
    const cell = this.cells[at]!;
    if (before !== null && cell.source !== before) return 'outdated';
    this.cells.splice(at, 1);
    const place = this.placeOf(after);
    if (place === null) {
      this.cells.splice(at, 0, cell);
      return 'no place';
    }
    this.cells.splice(place, 0, cell);
    this.taken.add(id);
    return null;
  }

  private delete({ id, before, optional = false }: Delete): Reason | null {
    const at = this.find(id);
    if (typeof at !== 'number') return optional ? null : at;
    const cell = this.cells[at]!;
    if (cell.source !== before) return optional ? null : 'outdated';
    if (cell.metadata['deletable'] === false) return optional ? null : 'not deletable';
    this.cells.splice(at, 1);
    this.taken.add(id);
    return null;
  }

  private find(id: string): number | Reason {
    const at = this.cells.findIndex((cell) => cell.id === id);
    if (at < 0) return 'gone';
    return this.doubled.has(id) ? 'doubled' : at;
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
}

/** The outputs to keep for a set. With very long ones, a cell counts as not executed. */
class KeptOutputs {
  private left = KEPT_OF_SET;

  of({ cell_type: type, outputs = [], execution_count: count = null }: CellData): Pick<Change, 'outputs' | 'execution_count' | 'cleared'> {
    if (type !== 'code') return {};
    const most = Math.min(KEPT_OUTPUTS, this.left);
    const length = lengthOf(outputs, most);
    if (length > most) return { outputs: [], execution_count: null, cleared: true };
    this.left -= length;
    return { outputs, execution_count: count };
  }
}

/** About a value's length as JSON; of a longer one than `most`, only that it is longer. */
export function lengthOf(value: unknown, most: number): number {
  if (typeof value === 'string' && value.length > most) return value.length;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)?.length ?? 0;
  let length = 2;
  for (const [key, item] of Object.entries(value)) {
    if (length > most) break;
    length += (Array.isArray(value) ? 1 : key.length + 4) + lengthOf(item, most - length);
  }
  return length;
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
  const before = cellsOf(notebook);
  const held = new Map<string, (readonly [SharedCell, string])[]>(); // of several cells with one id, none is taken or changed
  notebook.cells.forEach((cell, at) => {
    const { id, source } = before[at]!;
    if (!taken.has(id)) held.set(id, [...(held.get(id) ?? []), [cell, source]]);
  });
  notebook.undoManager?.stopCapturing();
  notebook.transact(() => {
    for (let at = before.length - 1; at >= 0; at--) if (taken.has(before[at]!.id)) notebook.deleteCell(at);
    cells.forEach((cell, at) => {
      const next = held.get(cell.id)?.shift();
      if (next === undefined) notebook.insertCell(at, trusted ? withTrust(cell) : cell);
      else {
        const [there, source] = next;
        if (source !== cell.source) there.setSource(cell.source);
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
