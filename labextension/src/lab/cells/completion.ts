/** Completes `%planck` while the kernel is busy and cannot: verbs, agents and variables as after the last cell. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCellModel } from '@jupyterlab/cells';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import type { CompletionHandler, ICompletionContext, ICompletionProvider } from '@jupyterlab/completer';
import { Text } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';

import { offerAt } from './planck-cells.ts';
import { IReviews } from '../review/reviews.ts';

class Provider implements ICompletionProvider {
  readonly identifier = '@planck-nb/lab:completion';
  readonly rank = 600;
  readonly renderer = null;
  private readonly reviews: IReviews;

  constructor(reviews: IReviews) {
    this.reviews = reviews;
  }

  async isApplicable({ widget }: ICompletionContext): Promise<boolean> {
    return widget instanceof NotebookPanel && runsACell(widget);
  }

  async fetch({ text, offset }: CompletionHandler.IRequest, { widget }: ICompletionContext): Promise<Reply> {
    const { verbs = null, names = null } =
      (widget instanceof NotebookPanel && this.reviews.of(widget)?.link) || {};
    const cursor = Text.charIndexToJsIndex(offset, text);
    const offer = verbs === null || names === null ? null : offerAt(text, cursor, verbs, names);
    if (offer === null) return { start: offset, end: offset, items: [] };
    const items = Object.entries(offer.texts).map(
      ([written, about]): CompletionHandler.ICompletionItem => ({ label: written, insertText: quoted(written), type: about }),
    );
    return { start: Text.jsIndexToCharIndex(offer.start, text), end: offset, items };
  }
}

type Reply = CompletionHandler.ICompletionItemsReply;

/** Whether a cell runs. The kernel's status says it late, and is "busy" for a widget's message too. */
function runsACell({ content: { model } }: NotebookPanel): boolean {
  for (const cell of model?.cells ?? []) if (cell instanceof CodeCellModel && cell.executionState === 'running') return true;
  return false;
}

function quoted(text: string): string {
  return text.includes(' ') && !text.includes('"') ? `"${text}"` : text;
}

export const completion: JupyterFrontEndPlugin<void> = {
  id: '@planck-nb/lab:completion',
  description: 'Completes %planck while the kernel is busy.',
  autoStart: true,
  requires: [IReviews],
  optional: [ICompletionProviderManager],
  activate: (_app, reviews: IReviews, manager: ICompletionProviderManager | null) =>
    manager?.registerProvider(new Provider(reviews)),
};
