/** What a view can do with the cell that it is in: where the frontend offers it, and otherwise nothing. */

interface SharedNotebook {
  insertCell(index: number, cell: { cell_type: 'code'; source: string; metadata: object }): unknown;
}

/** What the widget managers of JupyterLab and Notebook offer beside the kernel. */
export interface NotebookManager {
  readonly context?: { readonly model?: { readonly sharedModel?: Partial<SharedNotebook> } };
}

/** What our extension does with cells better than a view, which knows only their elements. */
export interface CellService {
  /** Insert a cell below an element's. Returns whether that was possible; null if it does not know the element. */
  insertBelow(cell: HTMLElement, source: string, run: boolean): boolean | null;
}

declare global {
  /** Set by our extension, if the page has it. */
  var planckCells: CellService | undefined;
}

const APPEARS_MS = 2000;

export class NotebookCell {
  private readonly manager: NotebookManager | null | undefined;
  private readonly inside: HTMLElement;

  /** `inside` is an element of the output of the cell. */
  constructor(manager: NotebookManager | null | undefined, inside: HTMLElement) {
    this.manager = manager;
    this.inside = inside;
  }

  /** Put the cursor into the cell. Returns whether that was possible. */
  edit(): boolean {
    const editor = editorOf(this.cell);
    if (!editor) return false;
    this.cell?.scrollIntoView({ block: 'nearest' });
    putCursorAtEnd(editor);
    return true;
  }

  /** Run the cell by its keyboard shortcut. Returns whether it has started. */
  run(): boolean {
    const prompt = this.cell?.querySelector('.jp-InputPrompt');
    if (!prompt || !this.edit()) return false;
    const editor = editorOf(this.cell);
    if (editor) pressRun(editor);
    return true;
  }

  /** Whether `insertBelow` is possible. */
  get canInsert(): boolean {
    return this.cell !== null && this.manager?.context?.model?.sharedModel?.insertCell !== undefined;
  }

  /** Insert a code cell below this one and put the cursor into it. Returns whether that was possible. */
  insertBelow(source: string, { run = false } = {}): boolean {
    const notebook = this.manager?.context?.model?.sharedModel;
    const { cell } = this;
    if (!cell || notebook?.insertCell === undefined) return false;
    const isInserted = globalThis.planckCells?.insertBelow(cell, source, run) ?? null;
    if (isInserted !== null) return isInserted;
    const at = indexOf(cell) + 1;
    notebook.insertCell(at, { cell_type: 'code', source, metadata: {} });
    const until = performance.now() + APPEARS_MS;
    const focus = (): void => {
      const cells = [...(cell.parentElement?.querySelectorAll<HTMLElement>(':scope > .jp-Cell') ?? [])];
      const editor = editorOf(cells.find((other) => other !== cell && indexOf(other) === at));
      if (editor) {
        putCursorAtEnd(editor);
        if (run) pressRun(editor);
      } else if (performance.now() < until) requestAnimationFrame(focus);
    };
    requestAnimationFrame(focus);
    return true;
  }

  /** The cell, or what our extension shows an answer in. */
  private get cell(): HTMLElement | null {
    return this.inside.closest<HTMLElement>('.jp-Cell, .planck-answer');
  }
}

/** The position of a cell in its notebook, of which only some cells may be in the document. */
function indexOf(cell: HTMLElement): number {
  const windowed = cell.dataset['windowedListIndex'];
  if (windowed !== undefined) return Number(windowed);
  return [...(cell.parentElement?.querySelectorAll(':scope > .jp-Cell') ?? [])].indexOf(cell);
}

function editorOf(cell: HTMLElement | null | undefined): HTMLElement | null {
  return cell?.querySelector<HTMLElement>('.jp-InputArea-editor .cm-content') ?? null;
}

/** Run a cell by its shortcut, after its editor got the focus. */
function pressRun(editor: HTMLElement): void {
  const key = { key: 'Enter', code: 'Enter', keyCode: 13, ctrlKey: true, bubbles: true, cancelable: true };
  // The notebook notices the focus a moment later; until then the shortcut would be that of the mode before.
  window.setTimeout(() => editor.dispatchEvent(new KeyboardEvent('keydown', key)));
}

function putCursorAtEnd(editor: HTMLElement): void {
  editor.focus();
  const selection = editor.ownerDocument.getSelection();
  selection?.selectAllChildren(editor);
  selection?.collapseToEnd();
}
