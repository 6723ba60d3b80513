/** Saved runs look as they did live, also without a kernel. The file has plain HTML, and stays as it is. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { soon } from './soon.ts';
import { viewModule } from './styles.ts';

const RUN = '[class*="planck-run-"]:not(.pk-saved)';
const VIEW = '.pk:not(.pk-saved, .planck-help, .planck-at-cell)';
/** A live view has this time to take over its output. A strict page policy may prevent live views altogether. */
const VIEW_MS = 3000;

/** Decorate runs in a cell, unless a live view does. */
function follow(cell: CodeCell, panel: NotebookPanel): void {
  const look = (): void => {
    const runs = [...cell.node.querySelectorAll<HTMLElement>(RUN)];
    if (runs.length === 0 || cell.node.querySelector(VIEW) !== null) return;
    void viewModule().then((view) => {
      for (const run of runs) if (run.isConnected && !run.matches('.pk-saved')) view.decorateAlone(run, panel as never);
    });
  };
  let timer = 0;
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    if (cell.node.querySelector(RUN) !== null) timer = window.setTimeout(look, isNew ? VIEW_MS : 0);
  });
  let isNew = false;
  cell.model.stateChanged.connect((_, { name }) => {
    if (name === 'executionCount' || name === 'executionState') isNew = true;
  });
  cell.disposed.connect(() => observer.disconnect());
  void cell.ready.then(() => {
    if (cell.isDisposed) return;
    observer.observe(cell.node, { childList: true, subtree: true });
    look();
  });
}

export const savedRuns: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:saved-runs',
  description: 'Shows saved runs of agents as they looked live.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_app, notebooks: INotebookTracker) => {
    const known = new WeakSet<object>();
    const add = (panel: NotebookPanel): void => {
      const look = soon(() => {
        for (const cell of panel.content.widgets) {
          if (cell.model.type !== 'code' || known.has(cell)) continue;
          known.add(cell);
          follow(cell as CodeCell, panel);
        }
      });
      panel.content.modelContentChanged.connect(look);
      void panel.context.ready.then(look);
    };
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, panel) => add(panel));
  },
};
