/** The side panel, in JupyterLab and in Notebook; the status bar and notifications lead to it. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { LabIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { setText } from '../../view/dom.ts';
import { news, summary } from './activity.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { Panel } from './panel.ts';
import { IReviews } from '../review/reviews.ts';

const ID = '@planck-nb/lab:panel';
const SHOW = 'planck:show-panel';
const ASK = 'planck:ask-in-panel';
/** How long a notification stays. */
const NEWS_MS = 10_000;
const ICON = new LabIcon({
  name: 'planck:panel',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="M12 2.5 14.4 9.6 21.5 12 14.4 14.4 12 21.5 9.6 14.4 2.5 12 9.6 9.6z"/></svg>',
});

export const panel: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows in a side panel what agents do, and what waits for a person.',
  autoStart: true,
  requires: [IReviews],
  optional: [ICommandPalette, IStatusBar, ISettingRegistry],
  activate: (
    { commands, serviceManager, shell },
    reviews: IReviews,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null,
  ) => {
    const kernels = serviceManager.kernelspecs;
    const newNotebook = (): void => void commands.execute('notebook:create-new', { kernelName: kernels.specs?.default });
    const widget = new Panel(reviews, (review) => shell.activateById(review.panel.id), newNotebook);
    widget.title.icon = ICON;
    shell.add(widget, 'right', { rank: 950 });
    const show = (): void => shell.activateById(widget.id);
    commands.addCommand(SHOW, { label: 'Show Agents', icon: ICON, execute: show });
    commands.addCommand(ASK, {
      label: 'Ask About This Cell…',
      execute: () => {
        widget.askAboutCell();
        show();
      },
    });
    for (const command of [SHOW, ASK]) palette?.addItem({ command, category: 'Planck' });

    const status = new StatusItem(show);
    statusBar?.registerStatusItem(ID, { item: status, align: 'left', rank: 100, isActive: () => status.text !== '', activeStateChanged: status.changed });
    let notifies = true;
    void settings?.load(ID).then((loaded) => {
      const read = (): void => void (notifies = loaded.get('notifications').composite !== false);
      loaded.changed.connect(read);
      read();
    });
    const isSeen = (review: NotebookReview): boolean => !document.hidden && (review === reviews.current || widget.isVisible);
    const update = (): void => status.tell([...reviews.all].flatMap(({ link }) => link.activity ?? []));
    reviews.changed.connect(update);
    reviews.activityChanged.connect((_, [review, before]) => {
      update();
      const text = news(before, review.link.activity, review.panel.context.path.split('/').at(-1) ?? '');
      if (text === '' || !notifies || isSeen(review)) return;
      const callback = (): void => {
        shell.activateById(review.panel.id);
        show();
      };
      Notification.info(text, { autoClose: NEWS_MS, actions: [{ label: 'Show', callback }] });
    });
  },
};

/** A button in the status bar. */
class StatusItem extends Widget {
  text = '';
  readonly changed = new Signal<this, void>(this);
  private readonly button = document.createElement('button');

  constructor(show: () => void) {
    super();
    this.addClass('planck-status');
    this.button.type = 'button';
    this.button.title = 'Show agents';
    this.button.addEventListener('click', show);
    this.node.append(this.button);
  }

  tell(activities: Parameters<typeof summary>[0]): void {
    this.text = summary(activities);
    setText(this.button, this.text);
    this.changed.emit();
  }
}
