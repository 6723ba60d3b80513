/** Agents propose changes to cells, and people decide. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { ACTIONS, CellHelp } from './cell-help.ts';
import { NotebookReview } from './notebook-review.ts';
import type { HelpWanted } from './protocol.generated.ts';
import { ReviewBar } from './review-view.ts';
import { addStyles } from './styles.ts';

const CATEGORY = 'Planck';
const COMMANDS = {
  'planck:review': ['Review the Proposed Changes', (bar: ReviewBar) => bar.reveal()],
  'planck:next-change': ['Next Proposed Change', (bar: ReviewBar) => bar.step(1)],
  'planck:previous-change': ['Previous Proposed Change', (bar: ReviewBar) => bar.step(-1)],
} as const;

export const proposals: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:proposals',
  description: 'Shows the changes to cells that agents propose.',
  autoStart: true,
  requires: [INotebookTracker, IEditorServices],
  optional: [ICommandPalette],
  activate: (app, notebooks: INotebookTracker, editors: IEditorServices, palette: ICommandPalette | null) => {
    const bars = new Map<NotebookPanel, ReviewBar>();
    const helps = new Map<NotebookPanel, CellHelp>();
    const contexts = new WeakSet<object>();
    const add = (panel: NotebookPanel): void => {
      if (contexts.has(panel.context)) return; // another view of the notebook has it
      contexts.add(panel.context);
      void panel.context.ready.then(() => {
        if (panel.isDisposed) return;
        addStyles();
        const review = new NotebookReview(panel);
        const bar = new ReviewBar(review, editors);
        bars.set(panel, bar);
        helps.set(panel, new CellHelp(review));
        panel.contentHeader.addWidget(bar);
        panel.disposed.connect(() => {
          bars.delete(panel);
          helps.delete(panel);
          contexts.delete(panel.context);
          const other = notebooks.find(({ context, isDisposed }) => context === panel.context && !isDisposed);
          if (other !== undefined) add(other);
        });
      });
    };
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, panel) => add(panel));
    for (const [command, [label, action]] of Object.entries(COMMANDS)) {
      app.commands.addCommand(command, {
        label,
        isEnabled: () => notebooks.currentWidget !== null && bars.has(notebooks.currentWidget),
        execute: () => {
          const bar = notebooks.currentWidget === null ? undefined : bars.get(notebooks.currentWidget);
          if (bar !== undefined) action(bar);
        },
      });
      palette?.addItem({ command, category: CATEGORY });
    }
    const help = (): CellHelp | undefined => (notebooks.currentWidget === null ? undefined : helps.get(notebooks.currentWidget));
    const isReady = (): boolean => help()?.isReady === true && notebooks.activeCell?.model.type === 'code';
    const entries = Object.entries(ACTIONS) as [HelpWanted['action'], string][];
    for (const [action, label] of entries)
      app.commands.addCommand(`planck:${action}-cell`, {
        label: `${label} This Cell`,
        isEnabled: isReady,
        execute: () => help()?.start(action),
      });
    app.commands.addCommand('planck:explain-cell', { label: 'Explain This Cell', isEnabled: isReady, execute: () => help()?.explain() });
    for (const [rank, name] of ['fix', 'explain', 'improve', 'document', 'test'].entries()) {
      const command = `planck:${name}-cell`;
      palette?.addItem({ command, category: CATEGORY });
      app.contextMenu.addItem({ command, selector: '.jp-Notebook .jp-CodeCell', rank: 50 + rank });
    }
  },
};
