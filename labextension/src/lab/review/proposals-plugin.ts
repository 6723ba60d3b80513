/** Agents propose changes to cells, and people decide. Buttons, menus and shortcuts are in `settings/proposals.json`. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { LabIcon } from '@jupyterlab/ui-components';

import { ACTIONS, CellHelp } from '../cells/cell-help.ts';
import type { Offer } from '../cells/cell-help.ts';
import { NotebookCheck } from './notebook-check.ts';
import { NotebookReview } from './notebook-review.ts';
import { IReviews, Reviews } from './reviews.ts';
import type { HelpWanted } from '../kernel/protocol.generated.ts';
import { ReviewBar } from './review-view.ts';
import { StaleCellMarks } from './stale-cells.ts';
import { addStyles } from '../styles.ts';

const CATEGORY = 'Planck';

const REVIEW_COMMANDS = {
  'planck:review': ['Review the Proposed Changes', (bar: ReviewBar) => bar.reveal()],
  'planck:next-change': ['Next Proposed Change', (bar: ReviewBar) => bar.go(1)],
  'planck:previous-change': ['Previous Proposed Change', (bar: ReviewBar) => bar.go(-1)],
  'planck:accept-change': ['Accept the Proposed Change', (bar: ReviewBar) => bar.accept()],
} as const;

interface HelpCommand {
  readonly label: string;
  readonly offer: Offer;
  readonly icon?: LabIcon;
  readonly does: (help: CellHelp) => void;
}

const ICONS = {
  fix: icon('fix', 'M20.7 7.2a5.3 5.3 0 0 1-7 6.3L7 20.2A2.3 2.3 0 0 1 3.8 17l6.7-6.7a5.3 5.3 0 0 1 6.3-7l-3.1 3.1.8 3 3 .8z'),
  explain: icon('explain', 'M3 4h18v13h-8l-5 4v-4H3zm2 2v9h5v2l2.5-2H19V6zm2 2h10v2H7zm0 3.5h7v2H7z'),
};

const HELP_COMMANDS: Readonly<Record<string, HelpCommand>> = {
  'planck:fix-cell': { ...helpBy('fix'), icon: ICONS.fix },
  'planck:explain-cell': { label: 'Explain This Cell', offer: 'explain', icon: ICONS.explain, does: (help) => help.explain() },
  'planck:improve-cell': helpBy('improve'),
  'planck:document-cell': helpBy('document'),
  'planck:test-cell': helpBy('test'),
  'planck:ask-selection': { label: 'Ask About the Selection…', offer: 'selection', does: (help) => help.askAboutSelection() },
  'planck:ask-cell': { label: 'Ask This', offer: 'question', does: (help) => help.ask() },
};

function helpBy(action: HelpWanted['action']): HelpCommand {
  return { label: `${ACTIONS[action]} This Cell`, offer: action, does: (help) => help.start(action) };
}

function icon(name: string, path: string): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="${path}"/></svg>`;
  return new LabIcon({ name: `planck:${name}`, svgstr });
}

export const proposals: JupyterFrontEndPlugin<IReviews> = {
  id: '@planck-nb/lab:proposals',
  description: 'Shows the changes to cells that agents propose.',
  autoStart: true,
  requires: [INotebookTracker, IEditorServices],
  optional: [ICommandPalette],
  provides: IReviews,
  activate: ({ commands }, notebooks: INotebookTracker, editors: IEditorServices, palette: ICommandPalette | null) => {
    const bars = new Map<NotebookPanel, ReviewBar>();
    const helps = new Map<NotebookPanel, CellHelp>();
    const reviews = new Reviews(notebooks);
    globalThis.planckCells = {
      insertBelow: (element, source, run) => {
        for (const review of reviews.all) {
          const cell = review.panel.content.widgets.find(({ node }) => node === element);
          if (cell !== undefined) return review.insertBelow(cell.model.id, source, run);
        }
        const review = reviews.answers.get(element);
        const below = review?.panel.content.activeCell?.model.id;
        return review === undefined || below === undefined ? null : review.insertBelow(below, source, run);
      },
    };
    const contexts = new WeakSet<object>();
    const ofCurrent = <Part>(parts: ReadonlyMap<NotebookPanel, Part>): Part | undefined =>
      notebooks.currentWidget === null ? undefined : parts.get(notebooks.currentWidget);
    const tellCommands = (): void => {
      for (const command of Object.keys(HELP_COMMANDS)) commands.notifyCommandChanged(command);
    };
    const add = (panel: NotebookPanel): void => {
      if (contexts.has(panel.context)) return; // another view has it
      contexts.add(panel.context);
      void panel.context.ready.then(() => {
        if (panel.isDisposed) return;
        addStyles();
        const review = new NotebookReview(panel);
        const check = new NotebookCheck(review);
        const bar = new ReviewBar(review, check, editors);
        const help = new CellHelp(review, check);
        new StaleCellMarks(review);
        reviews.add(review);
        bars.set(panel, bar);
        helps.set(panel, help);
        help.changed.connect(tellCommands);
        panel.disposed.connect(() => {
          reviews.delete(review);
          bar.dispose();
          bars.delete(panel);
          helps.delete(panel);
          contexts.delete(panel.context);
          const other = notebooks.find(({ context, isDisposed }) => context === panel.context && !isDisposed);
          if (other !== undefined) add(other);
        });
        tellCommands();
      });
    };
    for (const [command, [label, action]] of Object.entries(REVIEW_COMMANDS)) {
      commands.addCommand(command, {
        label,
        isEnabled: () => ofCurrent(bars) !== undefined,
        execute: () => {
          const bar = ofCurrent(bars);
          if (bar !== undefined) action(bar);
        },
      });
      palette?.addItem({ command, category: CATEGORY });
    }
    for (const [command, { label, offer, icon, does }] of Object.entries(HELP_COMMANDS)) {
      commands.addCommand(command, {
        label,
        ...(icon && { icon }),
        isEnabled: () => ofCurrent(helps)?.offers(offer) === true,
        // Toolbar buttons keep their places: a page hangs if one disappears.
        isVisible: ({ toolbar }) => toolbar === true || ofCurrent(helps)?.offers(offer) === true,
        execute: () => {
          const help = ofCurrent(helps);
          if (help?.offers(offer) === true) does(help);
        },
      });
      palette?.addItem({ command, category: CATEGORY });
    }
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, panel) => add(panel));
    notebooks.currentChanged.connect(tellCommands);
    return reviews;
  },
};
