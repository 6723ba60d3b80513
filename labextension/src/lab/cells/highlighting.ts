/** Colours for `%%planck` cells: Markdown with the names after `@`, or SQL. The grammars are JupyterLab's own. */

import { RangeSetBuilder } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin } from '@codemirror/view';
import type { DecorationSet, ViewUpdate } from '@codemirror/view';
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Notebook } from '@jupyterlab/notebook';

import { languageOf, namesIn } from './planck-cells.ts';
import { soon } from '../soon.ts';

const MIME_TYPES = { markdown: 'text/x-ipythongfm', sql: 'text/x-sql' } as const;

const name = Decoration.mark({ class: 'cm-planck-name' });

function namesOf(view: EditorView): DecorationSet {
  const names = new RangeSetBuilder<Decoration>();
  const { doc } = view.state;
  if (languageOf(doc.line(1).text) === 'markdown')
    for (const { from, to } of view.visibleRanges)
      for (const [start, end] of namesIn(doc.sliceString(from, to))) names.add(from + start, from + end, name);
  return names.finish();
}

const names = [
  ViewPlugin.define(
    (view) => ({
      names: namesOf(view),
      update(update: ViewUpdate) {
        if (update.docChanged || update.viewportChanged) this.names = namesOf(update.view);
      },
    }),
    { decorations: (plugin) => plugin.names },
  ),
  EditorView.baseTheme({ '.cm-planck-name': { color: 'var(--jp-mirror-editor-def-color)', fontWeight: '600' } }),
];

/** Keep the cell's language in step with its text. */
function follow(cell: Cell, notebook: Notebook): void {
  const { model } = cell;
  if (model.type !== 'code') return;
  const choose = (): void => {
    if (cell.isDisposed) return;
    const language = languageOf(model.sharedModel.getSource());
    const wanted = language === null ? null : MIME_TYPES[language];
    const isOurs = Object.values<string>(MIME_TYPES).includes(model.mimeType);
    if (wanted !== null) model.mimeType = wanted;
    else if (isOurs) model.mimeType = notebook.codeMimetype;
  };
  model.contentChanged.connect(choose);
  model.mimeTypeChanged.connect(choose); // a new language_info sets all cells back to the kernel's language
  choose();
}

function followAll(notebook: Notebook): void {
  const known = new WeakSet<Cell>();
  const look = soon(() => {
    for (const cell of notebook.widgets) {
      if (known.has(cell)) continue;
      known.add(cell);
      follow(cell, notebook);
    }
  });
  notebook.modelContentChanged.connect(look);
  notebook.modelChanged.connect(look);
  look();
}

export const highlighting: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:highlighting',
  description: 'Colours %%planck cells.',
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry],
  activate: (_app, notebooks: INotebookTracker, extensions: IEditorExtensionRegistry) => {
    extensions.addExtension({
      name: '@planck-nb/lab:names',
      factory: () => EditorExtensionRegistry.createImmutableExtension(names),
    });
    notebooks.forEach((panel) => followAll(panel.content));
    notebooks.widgetAdded.connect((_, panel) => followAll(panel.content));
  },
};
