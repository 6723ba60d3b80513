/** When the kernel behind a view ends, as far as its frontend tells. */

interface Signal<T> {
  connect(slot: (sender: unknown, value: T) => void): unknown;
  disconnect(slot: (sender: unknown, value: T) => void): unknown;
}

/** What JupyterLab and Notebook have for the kernel of a widget. */
interface Kernel {
  readonly statusChanged: Signal<string>;
  readonly disposed: Signal<unknown>;
}

export interface Widget {
  readonly widget_manager?: { readonly kernel?: Kernel | null };
  on(event: 'comm:close' | 'comm_live_update', callback: () => void): void;
}

const ENDED = new Set(['restarting', 'autorestarting', 'terminating', 'dead']);

/** Call `told` when the kernel ends, perhaps more than once; returns what stops that. */
export function onEnd(model: Widget, told: () => void): () => void {
  let heard = true;
  const tell = (): void => {
    if (heard) told();
  };
  model.on('comm:close', tell);
  const kernel = model.widget_manager?.kernel;
  // Elsewhere nothing is known of the kernel, and this comes when a connection is made again as well.
  if (!kernel) model.on('comm_live_update', tell);
  const changed = (_: unknown, status: string): void => {
    if (ENDED.has(status)) tell();
  };
  kernel?.statusChanged.connect(changed);
  kernel?.disposed.connect(tell);
  return () => {
    heard = false;
    kernel?.statusChanged.disconnect(changed);
    kernel?.disposed.disconnect(tell);
  };
}
