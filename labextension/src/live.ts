/** The anywidget module. One call of the default export serves one widget model and all its views. */

import { Connection } from './connection.ts';
import type { Command, Incoming } from './connection.ts';
import { onKernelEnd } from './kernel-status.ts';
import type { Widget } from './kernel-status.ts';
import { RunView } from './run-view.ts';
import type { Summary } from './summary-bar.ts';

interface Model extends Widget {
  get(name: 'phase'): 'live' | 'done';
  get(name: 'agent'): string;
  get(name: 'clicks'): boolean;
  get(name: 'summary'): Summary;
  on(event: 'msg:custom', callback: (message: Incoming) => void): void;
  on(event: 'change:phase' | 'comm:close' | 'comm_live_update', callback: () => void): void;
  send(command: Command): void;
}

export default () => {
  let connection: Connection | undefined;
  return {
    initialize({ model }: { model: Model }): void {
      if (model.get('phase') === 'done') return;
      const created = new Connection((command) => model.send(command));
      connection = created;
      model.on('msg:custom', (message) => created.receive(message));
      model.on('change:phase', onKernelEnd(model, () => created.end()));
      created.resync();
    },

    render({ model, el }: { model: Model; el: HTMLElement }): () => void {
      const view = new RunView(connection ?? new Connection(() => {}), model.get('agent'), el, model.get('clicks'));
      const collapse = (): void => view.collapse(model.get('summary'));
      if (model.get('phase') === 'done') collapse();
      model.on('change:phase', collapse);
      return () => view.dispose();
    },
  };
};
