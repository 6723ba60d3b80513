/** The anywidget module. One call of the default export serves one model, and every view of it. */

import type { Summary } from './bar.ts';
import { Channel } from './channel.ts';
import type { Incoming, Outgoing } from './channel.ts';
import { onEnd } from './kernel.ts';
import type { Widget } from './kernel.ts';
import { RunView } from './view.ts';

interface Model extends Widget {
  get(name: 'phase'): 'live' | 'done';
  get(name: 'agent'): string;
  get(name: 'summary'): Summary;
  on(event: 'msg:custom', callback: (message: Incoming) => void): void;
  on(event: 'change:phase' | 'comm:close' | 'comm_live_update', callback: () => void): void;
  send(message: Outgoing): void;
}

export default () => {
  let channel: Channel | undefined;
  return {
    initialize({ model }: { model: Model }): void {
      if (model.get('phase') === 'done') return;
      const made = new Channel((message) => model.send(message));
      channel = made;
      model.on('msg:custom', (message) => made.receive(message));
      model.on('change:phase', onEnd(model, () => made.end()));
      made.resync();
    },

    render({ model, el }: { model: Model; el: HTMLElement }): () => void {
      const view = new RunView(channel ?? new Channel(() => {}), model.get('agent'), el);
      const fold = (): void => view.fold(model.get('summary'));
      if (model.get('phase') === 'done') fold();
      model.on('change:phase', fold);
      return () => view.dispose();
    },
  };
};
