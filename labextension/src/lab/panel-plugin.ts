/** The side panel, in JupyterLab and in Notebook. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { LabIcon } from '@jupyterlab/ui-components';

import { Panel } from './panel.ts';
import { IReviews } from './reviews.ts';

const COMMAND = 'planck:show-panel';
const ASK = 'planck:ask-in-panel';
const ICON = new LabIcon({
  name: 'planck:panel',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="M12 2.5 14.4 9.6 21.5 12 14.4 14.4 12 21.5 9.6 14.4 2.5 12 9.6 9.6z"/></svg>',
});

export const panel: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:panel',
  description: 'Shows in a side panel what agents do, and what waits for a person.',
  autoStart: true,
  requires: [IReviews],
  optional: [ICommandPalette],
  activate: ({ commands, shell }, reviews: IReviews, palette: ICommandPalette | null) => {
    const widget = new Panel(reviews, (review) => shell.activateById(review.panel.id));
    widget.title.icon = ICON;
    shell.add(widget, 'right', { rank: 950 });
    commands.addCommand(COMMAND, { label: 'Show Agents', icon: ICON, execute: () => shell.activateById(widget.id) });
    commands.addCommand(ASK, {
      label: 'Ask About This Cell…',
      execute: () => {
        widget.askAboutCell();
        shell.activateById(widget.id);
      },
    });
    for (const command of [COMMAND, ASK]) palette?.addItem({ command, category: 'Planck' });
  },
};
