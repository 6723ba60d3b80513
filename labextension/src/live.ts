/** The code of the views, which `loader.ts` gets. One call of the default export serves one widget model and all its views. */

import { Connection } from './connection.ts';
import type { Command, Incoming } from './connection.ts';
import { onKernelEnd } from './kernel-status.ts';
import type { Widget } from './kernel-status.ts';
import { partsFrom } from './parts.ts';
import type { Load } from './parts.ts';
import { RunView } from './run-view.ts';
import { addStyle } from './style.ts';
import type { Summary } from './summary-bar.ts';

/** A file, which `loader.ts` reads. */
interface Code {
  readonly type: 'code';
  readonly file: string;
}

type Message = (Incoming | Code) & { file?: string };

interface Model extends Widget {
  get(name: 'code'): DataView<ArrayBuffer> | null;
  get(name: 'phase'): 'live' | 'done';
  get(name: 'agent'): string;
  get(name: 'clicks'): boolean;
  get(name: 'summary'): Summary;
  on(event: 'msg:custom', callback: (message: Message, buffers: DataView<ArrayBuffer>[]) => void): void;
  on(event: 'change:phase' | 'comm:close' | 'comm_live_update', callback: () => void): void;
  send(command: Command | { type: 'load'; file: string }): void;
}

export default ({ model }: { model: Model }, load: Load): ((context: { el: HTMLElement }) => () => void) => {
  partsFrom(load, model);
  let connection: Connection | undefined;
  if (model.get('phase') !== 'done') {
    const created = new Connection((command) => model.send(command));
    connection = created;
    model.on('msg:custom', (message) => {
      if (message.type !== 'code') created.receive(message);
    });
    model.on('change:phase', onKernelEnd(model, () => created.end()));
    created.resync();
  }

  return ({ el }) => {
    addStyle(el);
    const view = new RunView(connection ?? new Connection(() => {}), model.get('agent'), el, model.get('clicks'));
    const collapse = (): void => view.collapse(model.get('summary'));
    if (model.get('phase') === 'done') collapse();
    model.on('change:phase', collapse);
    return () => view.dispose();
  };
};
