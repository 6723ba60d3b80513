/** A notebook's proposed changes: their effects now, and a person's decisions. */

import { CodeCellModel } from '@jupyterlab/cells';
import type { Cell, CodeCell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { isApplied, KernelLink } from '../kernel/kernel-link.ts';
import { lineDiff } from './line-diff.ts';
import type { DiffLine } from './line-diff.ts';
import { apply, cellsOf, conflictsOf, plan } from './proposals.ts';
import type { CellData, Conflict, Operation, Reason, SharedNotebook } from './proposals.ts';
import type { CellChange, ChangeSet, Decision, FromKernel, PageCell } from '../kernel/protocol.generated.ts';

const OUTPUT_CHARACTERS = 8_000;
/** How long changes to the document wait for others before what they mean is shown. */
const UPDATE_MS = 50;

const REASONS: Readonly<Record<Reason, string>> = {
  outdated: 'The cell was edited after this was written.',
  gone: 'The cell is not in the notebook any more.',
  doubled: 'Several cells have the same id; save the notebook and open it again.',
  exists: 'The cell is in the notebook already.',
  'no place': 'The cell before the new place is not in the notebook; accept the change that inserts it first.',
  'not editable': 'The cell is not editable.',
  'not deletable': 'The cell cannot be deleted.',
};

/** A change as it would be applied now. */
export interface Shown {
  readonly set: ChangeSet;
  readonly change: CellChange;
  /** The obstacle in words; empty without one. */
  readonly problem: string;
  /** Whether another set changes the same cell. */
  readonly isContested: boolean;
  readonly diff: readonly DiffLine[];
  /** The cell for people, such as "cell 3" or "after cell 3". */
  readonly place: string;
  /** The cell at which it is shown; null if that is gone. */
  readonly at: string | null;
  /** Equal for what looks equal. */
  readonly key: string;
}

/** A person's text for a proposed cell, for all its editors. */
export type EditedText = CodeEditor.IModel['sharedModel'];

interface Diff {
  readonly before: string;
  readonly after: string;
  readonly lines: readonly DiffLine[];
}

export class NotebookReview {
  readonly panel: NotebookPanel;
  readonly link: KernelLink;
  /** A person's texts by change, while the changes are open. */
  readonly edited = new Map<string, EditedText>();
  readonly changed = new Signal<this, void>(this);
  /** What a person has to know about the last action, and what only a screen reader says. */
  readonly told = new Signal<this, string>(this);
  readonly said = new Signal<this, string>(this);
  /** Emitted with operations in a set which were applied to the notebook, to accept it or to take it back. */
  readonly applying = new Signal<this, readonly [ChangeSet, readonly Operation[]]>(this);
  /** Emitted when a person wants to see the proposals. */
  readonly revealed = new Signal<this, void>(this);
  private shown: readonly Shown[] | null = null;
  private diffs: ReadonlyMap<string, Diff> = new Map();
  private deciding = false;
  private updating = 0;

  constructor(panel: NotebookPanel) {
    this.panel = panel;
    this.link = new KernelLink(panel.context, (link, message) => this.answer(link, message));
    this.link.changed.connect(() => this.update());
    this.link.lost.connect((_, text) => this.tell(text));
    panel.content.modelContentChanged.connect(() => {
      this.shown = null;
      if (this.link.sets.length > 0 && this.updating === 0) this.updating = window.setTimeout(() => this.update(), UPDATE_MS);
    });
    panel.disposed.connect(() => this.link.dispose());
    panel.content.activeCellChanged.connect(() => this.link.focus());
  }

  /** Whether a cell runs or waits for its run. */
  get runsCell(): boolean {
    return this.panel.content.widgets.some(({ model }) => model.type === 'code' && (model as ICodeCellModel).executionState === 'running');
  }

  /** The changes about which a decision is missing. */
  get open(): readonly Shown[] {
    return (this.shown ??= this.found());
  }

  /** Sets with applied changes, the last decided first. */
  get applied(): readonly ChangeSet[] {
    return this.link.sets
      .filter(({ changes }) => changes.some(isApplied))
      .sort((one, other) => (other.decided ?? 0) - (one.decided ?? 0));
  }

  /** Accept changes in one set, with a person's texts for them. */
  async accept(set: ChangeSet, changes: readonly CellChange[]): Promise<void> {
    await this.once(async () => {
      const accepted = changes.map((change) => ({ ...change, source: this.edited.get(change.id)?.getSource() ?? change.source }));
      const before = this.planOf(accepted.map(operationOf));
      if (!before) return;
      const claim = await this.link.question({ type: 'claim', set: set.id, changes: changes.map(({ id }) => id) });
      if (!claim.ok) return this.tell(claim.problem);
      const planned = this.planOf(accepted.map(operationOf)); // a person may have typed meanwhile
      if (!planned) return this.link.decide(set, [], []); // another page may
      apply(this.shared, planned, this.isTrusted);
      const decisions = accepted.map(({ id, source }, at): Decision => {
        const isEdited = source !== changes[at]!.source;
        return { change: id, state: isEdited ? 'edited' : 'accepted', reason: '', source: isEdited ? source : null };
      });
      this.link.decide(set, decisions, planned.inverse);
      this.applying.emit([set, accepted.map(operationOf)]);
      this.said.emit(accepted.length === 1 ? 'The change was accepted.' : `${accepted.length} changes were accepted.`);
      if (set.run) for (const { cell } of accepted) this.run(cell);
    });
  }

  /** Refuse changes, or say that they are outdated. */
  async refuse(set: ChangeSet, changes: readonly CellChange[], state: 'refused' | 'outdated', reason: string): Promise<void> {
    await this.once(async () => {
      const claim = await this.link.question({ type: 'claim', set: set.id, changes: changes.map(({ id }) => id) });
      if (!claim.ok) return this.tell(claim.problem);
      const decisions = changes.map(({ id }): Decision => ({ change: id, state, reason, source: null }));
      this.link.decide(set, decisions, []);
      this.said.emit(changes.length === 1 ? 'The change was refused.' : `${changes.length} changes were refused.`);
    });
  }

  /** Accept or refuse shown changes, each set as a whole. */
  async decide(shown: readonly Shown[], isAccepted: boolean): Promise<void> {
    for (const set of new Set(shown.map((each) => each.set))) {
      const changes = shown.filter((each) => each.set === set).map(({ change }) => change);
      await (isAccepted ? this.accept(set, changes) : this.refuse(set, changes, 'refused', ''));
    }
  }

  /** Take back a set's applied changes only. */
  async takeBack(set: ChangeSet): Promise<void> {
    await this.once(async () => {
      const answer = await this.link.question({ type: 'inverse wanted', set: set.id });
      if (!answer.ok) return this.tell(answer.problem || 'There is nothing to take back.');
      const operations = answer.inverse as unknown as Operation[];
      const planned = this.planOf(operations);
      if (!planned) return;
      apply(this.shared, planned, this.isTrusted);
      this.link.takeBack(set);
      this.applying.emit([set, operations]);
      this.tell(`Taken back. Variables and files stay as they are.${this.lostOutputs(operations)}`);
    });
  }

  /** Bring a cell into view and make it the active one. */
  show(id: string): void {
    const { content } = this.panel;
    const at = content.widgets.findIndex(({ model }) => model.id === id);
    if (at < 0) return;
    content.activeCellIndex = at;
    const cell = content.widgets[at]!;
    void content.scrollToCell(cell).then(() => cell.node.scrollIntoView({ block: 'nearest' }));
  }

  /**
   * Insert a code cell below another one, perhaps with outputs; run it, or put the cursor at its end. Returns whether
   * it is there.
   */
  insertBelow(below: string, source: string, run = false, outputs: readonly object[] = []): boolean {
    const id = newId();
    const cell = { id, cell_type: 'code', source, metadata: {}, outputs: [...outputs], execution_count: null };
    const planned = this.planOf([{ kind: 'insert', cell, after: [below] }]);
    if (!planned) return false;
    apply(this.shared, planned, run || this.isTrusted);
    this.show(id);
    if (run) this.run(id);
    else if (outputs.length === 0) this.write(id);
    return true;
  }

  cell(id: string): Cell | undefined {
    return this.panel.content.widgets.find(({ model }) => model.id === id);
  }

  /** Say something to the person. */
  tell(text: string): void {
    this.told.emit(text);
  }

  /** Put the cursor at a cell's end, as soon as the page has made it. */
  private write(id: string): void {
    const cell = this.cell(id);
    if (cell === undefined) return;
    this.panel.content.mode = 'edit';
    void cell.ready.then(() => {
      const { editor } = cell;
      if (cell.isDisposed || editor === null) return;
      const line = editor.lineCount - 1;
      editor.setCursorPosition({ line, column: editor.getLine(line)?.length ?? 0 });
      editor.focus();
    });
  }

  private update(): void {
    clearTimeout(this.updating);
    this.updating = 0;
    if (this.panel.isDisposed) return;
    this.shown = null;
    this.changed.emit();
  }

  /** Decide one at a time: a second click on a button does not count. */
  private async once(action: () => Promise<void>): Promise<void> {
    if (this.link.delay !== '') this.tell(this.link.delay);
    if (this.deciding) return;
    this.deciding = true;
    try {
      await action();
    } finally {
      this.deciding = false;
      this.update();
    }
  }

  /** What a set does now; null, with a word to the person, if something is in the way. */
  private planOf(operations: readonly Operation[]): ReturnType<typeof plan> | null {
    if (!this.isWritable) {
      this.tell('The notebook is read-only.');
      return null;
    }
    const planned = plan(cellsOf(this.shared), operations, newId);
    const [conflict] = planned.conflicts;
    if (conflict === undefined) return planned;
    this.tell(`Nothing was changed: ${describe(conflict, operations, this.numbers())}`);
    return null;
  }

  /** The sentence about outputs which were too long to keep; empty without any. */
  private lostOutputs(operations: readonly Operation[]): string {
    const numbers = this.numbers();
    const cells = operations.flatMap((operation) => {
      if (operation.kind !== 'insert' && operation.kind !== 'change') return [];
      return operation.cleared ? [numbers.get(operation.kind === 'insert' ? operation.cell.id : operation.id)] : [];
    });
    if (cells.length === 0) return '';
    const [what, them] = cells.length === 1 ? ['outputs of cell', 'it'] : ['outputs of cells', 'them'];
    return ` The long ${what} ${cells.join(', ')} were not kept; run ${them} again.`;
  }

  private found(): Shown[] {
    if (this.link.sets.length === 0) return []; // as while a notebook opens or a person writes
    const cells = this.outline();
    const numbers = numbersOf(cells);
    const sets = this.link.sets.map((set) => [set, set.changes.filter(({ state }) => state === 'open')] as const);
    const wanted = new Map<string, Set<ChangeSet>>();
    for (const [set, open] of sets) for (const { cell } of open) wanted.set(cell, (wanted.get(cell) ?? new Set()).add(set));
    const diffs = new Map<string, Diff>();
    const shown = sets.flatMap(([set, open]) => {
      const reasons = new Map(conflictsOf(cells, open.map(operationOf)).map(({ at, reason }) => [at, REASONS[reason]]));
      return open.map((change, at): Shown => {
        const diff = this.diffOf(change, cells);
        diffs.set(change.id, diff);
        const says = {
          problem: reasons.get(at) ?? '',
          isContested: wanted.get(change.cell)!.size > 1,
          place: placeOf(change, numbers),
          at: [change.cell, change.after ?? cells[0]?.id].find((id) => id !== undefined && numbers.has(id)) ?? null,
        };
        const { agent, title, run } = set;
        return { set, change, ...says, diff: diff.lines, key: JSON.stringify([agent, title, run, change, says, diff.after]) };
      });
    });
    this.diffs = diffs;
    return shown;
  }

  /** A change's difference, which is found once. */
  private diffOf(change: CellChange, cells: readonly CellData[]): Diff {
    const [before, after] = textsOf(change, cells);
    const known = this.diffs.get(change.id);
    if (known?.before === before && known.after === after) return known;
    const lines = change.kind === 'move' ? after.split('\n').map((line) => [' ', line] as const) : lineDiff(before, after);
    return { before, after, lines };
  }

  private numbers(): ReadonlyMap<string, number> {
    return numbersOf(this.outline());
  }

  /** The cells without their outputs, which may be long. */
  private outline(): CellData[] {
    return this.panel.content.model!.sharedModel.cells.map((cell) => ({
      id: cell.id,
      cell_type: cell.cell_type,
      source: cell.source,
      metadata: { editable: cell.getMetadata('editable'), deletable: cell.getMetadata('deletable') },
    }));
  }

  private get shared(): SharedNotebook {
    return this.panel.content.model!.sharedModel as unknown as SharedNotebook;
  }

  private get isWritable(): boolean {
    return this.panel.context.contentsModel?.writable !== false && this.panel.content.model?.readOnly !== true;
  }

  private get isTrusted(): boolean {
    return this.panel.content.widgets.every(({ model }) => model.type !== 'code' || model.trusted);
  }

  private run(id: string): string {
    const cell = this.cell(id);
    if (cell === undefined) return 'The cell is not in the notebook any more.';
    if (cell.model.type !== 'code') return 'The cell is not a code cell.';
    const look = (): void => {
      // Only runs without a beginning leave no count, as after an interrupt.
      if (cell.isDisposed || (cell as CodeCell).model.executionCount === null) this.link.send({ type: 'not run', cell: id });
    };
    void NotebookActions.runCells(this.panel.content, [cell], this.panel.sessionContext).then(look, look);
    return '';
  }

  /** Answer the kernel. */
  private answer(link: KernelLink, message: FromKernel): void {
    if (message.type === 'cells wanted') {
      const cells = this.panel.content.model === null ? [] : pageCells(this.panel.content, message.outputs_of);
      link.send({ type: 'cells', request: message.request, cells, writable: this.isWritable });
    } else if (message.type === 'run wanted') {
      const source = this.cell(message.cell)?.model.sharedModel.getSource();
      const isSame = source === undefined || source === message.source;
      const problem = isSame ? this.run(message.cell) : 'The cell was edited since it was read, so it was not run.';
      link.send({ type: 'started', request: message.request, problem });
    }
  }
}

/** The changes whose effects are clear. */
export function readyOf(shown: readonly Shown[]): readonly Shown[] {
  return shown.filter(({ problem, isContested }) => problem === '' && !isContested);
}

/** The button's words for accepting ready changes at once, which says how many are run. */
export function acceptLabel(ready: readonly Shown[]): string {
  const runs = ready.filter(({ set }) => set.run).length;
  return `Accept the ${ready.length} ready${runs === 0 ? '' : ` and run ${runs}`}`;
}

function newId(): string {
  return crypto.randomUUID?.() ?? Math.random().toString(36).slice(2);
}

function operationOf(change: CellChange): Operation {
  const { cell: id, before, source, after } = change;
  switch (change.kind) {
    case 'insert': {
      const data = { id, cell_type: change.cell_type, source: source ?? '', metadata: {} };
      const cell = change.cell_type === 'code' ? { ...data, outputs: [], execution_count: null } : data;
      return { kind: 'insert', cell, after: [after] };
    }
    case 'change':
      return { kind: 'change', id, before: before ?? '', source: source ?? '' };
    case 'move':
      return { kind: 'move', id, before, after: [after] };
    case 'delete':
      return { kind: 'delete', id, before: before ?? '' };
  }
}

function textsOf({ kind, cell, before, source }: CellChange, cells: readonly CellData[]): readonly [string, string] {
  if (kind === 'insert') return ['', source ?? ''];
  if (kind !== 'move') return [before ?? '', kind === 'change' ? (source ?? '') : ''];
  const now = cells.find(({ id }) => id === cell)?.source ?? before ?? '';
  return ['', now.split('\n').slice(0, 3).join('\n')];
}

function numbersOf(cells: readonly CellData[]): ReadonlyMap<string, number> {
  return new Map(cells.map(({ id }, at) => [id, at + 1]));
}

function placeOf({ kind, cell, after }: CellChange, numbers: ReadonlyMap<string, number>): string {
  const name = (id: string): string => (numbers.has(id) ? `cell ${numbers.get(id)}` : 'a new cell');
  const place = after === null ? 'at the beginning' : `after ${name(after)}`;
  if (kind === 'insert') return place;
  const own = numbers.has(cell) ? name(cell) : 'a cell that is gone';
  return kind === 'move' ? `${own}, to ${place.replace('at ', '')}` : own;
}

function describe({ at, reason }: Conflict, operations: readonly Operation[], numbers: ReadonlyMap<string, number>): string {
  const operation = operations[at]!;
  const number = numbers.get(operation.kind === 'insert' ? operation.cell.id : operation.id);
  return `${number === undefined ? '' : `cell ${number}. `}${REASONS[reason]}`;
}

/** The cells for the kernel, and one cell's outputs as bounded text. */
function pageCells(notebook: Notebook, wanted: string): PageCell[] {
  return notebook.widgets.map(({ model }) => {
    const isCode = model instanceof CodeCellModel || model.type === 'code';
    const code = model as CodeCellModel;
    return {
      id: model.id,
      cell_type: model.type as PageCell['cell_type'],
      source: model.sharedModel.getSource(),
      count: isCode ? code.executionCount : null,
      output: isCode && model.id === wanted ? outputText(code) : '',
      is_stale: isCode && code.executionCount !== null && code.isDirty,
      editable: isAllowed(model, 'editable'),
      deletable: isAllowed(model, 'deletable'),
    };
  });
}

function isAllowed(model: ICellModel, name: 'editable' | 'deletable'): boolean {
  return model.getMetadata(name) !== false;
}

const TEXTS = ['text/plain', 'application/vnd.jupyter.stdout', 'application/vnd.jupyter.stderr', 'application/vnd.jupyter.error', 'text/markdown'];

/** A cell's outputs as bounded text. */
export function outputText({ outputs }: ICodeCellModel): string {
  const parts: string[] = [];
  let left = OUTPUT_CHARACTERS;
  for (let at = 0; at < (outputs?.length ?? 0) && left > 0; at++) {
    const { data } = outputs.get(at);
    const type = TEXTS.find((name) => data[name] !== undefined);
    const value = type === undefined ? undefined : data[type];
    const whole = typeof value === 'string' ? value : Array.isArray(value) ? value.join('') : `[${Object.keys(data).join(', ')}]`;
    const text = whole.slice(0, left).replace(/\u001b\[[\d;]*m/g, '');
    parts.push(text);
    left -= text.length;
  }
  return parts.join('\n');
}
