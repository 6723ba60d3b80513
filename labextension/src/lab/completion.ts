/** Completes `%planck` while the kernel is busy and cannot: verbs, agents and variables as after the last cell. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCellModel } from '@jupyterlab/cells';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import type { CompletionHandler, ICompletionContext, ICompletionProvider } from '@jupyterlab/completer';
import { Text } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';

import { links } from './kernel-link.ts';
import { offerAt } from './planck-cells.ts';

const provider: ICompletionProvider = {
  identifier: '@planck-nb/lab:completion',
  rank: 600,
  renderer: null,
  isApplicable: async ({ widget }) => widget instanceof NotebookPanel && runsACell(widget),
  fetch: async ({ text, offset }, { widget }: ICompletionContext) => {
    const { verbs = null, names = null } = (widget instanceof NotebookPanel && links.get(widget.context)) || {};
    const cursor = Text.charIndexToJsIndex(offset, text);
    const offer = verbs === null || names === null ? null : offerAt(text, cursor, verbs, names);
    if (offer === null) return { start: offset, end: offset, items: [] };
    const items = Object.entries(offer.texts).map(
      ([written, about]): CompletionHandler.ICompletionItem => ({ label: written, insertText: quoted(written), type: about }),
    );
    return { start: Text.jsIndexToCharIndex(offer.start, text), end: offset, items };
  },
};

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
  optional: [ICompletionProviderManager],
  activate: (_app, manager: ICompletionProviderManager | null) => manager?.registerProvider(provider),
};
