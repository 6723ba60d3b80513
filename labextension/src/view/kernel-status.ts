/** Notices when the kernel of a view ends, as far as its frontend reports it. */

import type { NotebookManager } from './notebook-cell.ts';

interface Signal<T> {
  connect(slot: (sender: unknown, value: T) => void): unknown;
  disconnect(slot: (sender: unknown, value: T) => void): unknown;
}

/** The kernel of a widget in JupyterLab and Notebook. */
interface Kernel {
  readonly statusChanged: Signal<string>;
  readonly disposed: Signal<unknown>;
}

export interface Widget {
  readonly widget_manager?: NotebookManager & { readonly kernel?: Kernel | null };
  on(event: 'comm:close' | 'comm_live_update', callback: () => void): void;
  off(event: 'comm:close' | 'comm_live_update', callback: () => void): void;
}

const ENDED = new Set(['restarting', 'autorestarting', 'terminating', 'dead']);

/** Call `listener` when the kernel ends, perhaps more than once. Returns a function that stops that. */
export function onKernelEnd(model: Widget, listener: () => void): () => void {
  model.on('comm:close', listener);
  const kernel = model.widget_manager?.kernel;
  // Other frontends do not expose the kernel. They send this when a connection is re-established, too.
  if (!kernel) model.on('comm_live_update', listener);
  const changed = (_: unknown, status: string): void => {
    if (ENDED.has(status)) listener();
  };
  kernel?.statusChanged.connect(changed);
  kernel?.disposed.connect(listener);
  return () => {
    model.off('comm:close', listener);
    model.off('comm_live_update', listener);
    kernel?.statusChanged.disconnect(changed);
    kernel?.disposed.disconnect(listener);
  };
}
