/** Saved runs look as they did live, also in a notebook without a kernel. The file has plain HTML, and stays as it is. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { viewModule } from './styles.ts';

const RUN = '[class*="planck-run-"]:not(.pk-saved)';
const VIEW = '.pk:not(.pk-saved)';

/** Decorate the runs in a cell that were there when the notebook was opened. A view decorates its own run. */
function follow(cell: CodeCell, panel: NotebookPanel): void {
  const { outputs } = cell.model;
  if (!hasRun(cell)) return;
  const look = (): void => {
    const runs = [...cell.node.querySelectorAll<HTMLElement>(RUN)];
    if (runs.length === 0) return;
    void viewModule().then((view) => {
      for (const run of runs)
        if (run.isConnected && !run.matches('.pk-saved') && cell.node.querySelector(VIEW) === null) view.decorateAlone(run, panel as never);
    });
  };
  const observer = new MutationObserver(look);
  const end = (): void => observer.disconnect();
  outputs.changed.connect(() => {
    if (cell.model.executionState === 'running') end(); // this is another run
  });
  cell.disposed.connect(end);
  void cell.ready.then(() => {
    if (cell.isDisposed) return;
    observer.observe(cell.node, { childList: true, subtree: true });
    look();
  });
}

function hasRun({ model: { outputs } }: CodeCell): boolean {
  for (let at = 0; at < outputs.length; at++) {
    const html = outputs.get(at).data['text/html'];
    if (typeof html === 'string' ? html.includes('planck-run-') : Array.isArray(html) && html.some((line) => line.includes('planck-run-'))) return true;
  }
  return false;
}

export const savedRuns: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:saved-runs',
  description: 'Shows saved runs of agents as they looked live.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_app, notebooks: INotebookTracker) => {
    const add = (panel: NotebookPanel): void =>
      void panel.context.ready.then(() => {
        for (const cell of panel.content.widgets) if (cell.model.type === 'code') follow(cell as CodeCell, panel);
      });
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, panel) => add(panel));
  },
};
