/** The code of the views, which `loader.ts` gets. One call of the default export serves one widget model and all its views. */

import { Connection } from './model/connection.ts';
import type { Command, Frame, Incoming } from './model/connection.ts';
import { onKernelEnd } from './view/kernel-status.ts';
import type { Widget } from './view/kernel-status.ts';
import { partsFrom } from './widget/parts.ts';
import type { Load } from './widget/parts.ts';
import { Announcer } from './view/announcer.ts';
import { ApprovalsView } from './view/approvals-view.ts';
import { NotebookCell } from './view/notebook-cell.ts';
import type { NotebookManager } from './view/notebook-cell.ts';
import { decorate } from './view/saved-output.ts';
import { RunView } from './view/run-view.ts';
import { holdStaticOutput, onStaticOutput, staticOutput } from './view/static-output.ts';
import { addStyle } from './style.ts';
import { TranscriptView } from './view/transcript.ts';
import type { Summary } from './view/summary-bar.ts';

/** A file, which `loader.ts` reads. */
interface Code {
  readonly type: 'code';
  readonly file: string;
}

/** Frames of several views, by the key of each. */
interface Frames {
  readonly type: 'frames';
  readonly frames: Readonly<Record<string, Frame>>;
}

type Message = (Incoming | Code | Frames) & { file?: string };

interface Model extends Widget {
  get(name: 'code'): DataView<ArrayBuffer> | null;
  get(name: 'phase'): 'live' | 'done';
  get(name: 'agent' | 'key' | 'marker'): string;
  get(name: 'clicks' | 'shown'): boolean;
  get(name: 'summary'): Summary;
  on(event: 'msg:custom', callback: (message: Message, buffers: DataView<ArrayBuffer>[]) => void): void;
  on(event: 'change:phase' | 'comm:close' | 'comm_live_update', callback: () => void): void;
  send(command: Command | { type: 'load'; file: string }): void;
}

/** By what the kernel knows this page; another one after a reload. */
const PAGE = Math.random().toString(36).slice(2);

/** The connections of the views of this page, for frames that contain those of several. */
const connections = new Map<string, Connection>();

/** How long the output of a run that is over may take to appear, in milliseconds. */
const OUTPUT_MS = 1500;

function receive(connection: Connection, message: Message): void {
  if (message.type === 'frames') {
    for (const [key, frame] of Object.entries(message.frames)) connections.get(key)?.receive(frame);
  } else if (message.type !== 'code') connection.receive(message);
}

/** Make an output look as its live view did, in a notebook opened later. */
export function decorateAlone(output: HTMLElement, manager: NotebookManager): void {
  addStyle(output);
  const announcer = new Announcer();
  output.append(announcer.element);
  decorate(output, [], null, new NotebookCell(manager, output), announcer, true);
}

export { addStyle, ApprovalsView, TranscriptView };

export default ({ model }: { model: Model }, load: Load): ((context: { el: HTMLElement }) => () => void) => {
  const connection = new Connection((command) => model.send(command));
  model.on('msg:custom', (message) => receive(connection, message));
  const isDone = (): boolean => model.get('phase') === 'done';
  connection.send({ type: 'page', page: PAGE });
  if (!isDone()) {
    const key = model.get('key');
    connections.set(key, connection);
    const unfollow = onKernelEnd(model, () => connection.end());
    model.on('change:phase', () => {
      unfollow();
      connections.delete(key);
    });
    connection.resync();
  }

  return ({ el }) => {
    addStyle(el);
    const leaveParts = partsFrom(load, model);
    const view = new RunView(connection, model.get('agent'), el, model.get('clicks'), model.widget_manager ?? null);
    connection.send({ type: 'rendered' });
    const cleanups: (() => void)[] = [];
    const marker = model.get('marker');
    let showOutput = (): void => {};
    /** Collapse the view as soon as the cell contains the output of the run. If it does not, show the whole run. */
    const finish = (): void => {
      const marker = model.get('marker'); // empty if nothing was saved
      const collapse = (): void => {
        clearTimeout(timer);
        el.hidden = false;
        view.collapse(model.get('summary'), () => {
          showOutput();
          return marker === '' ? null : staticOutput(el, marker);
        });
        showOutput();
        leaveParts();
        if (!model.get('shown')) connection.send({ type: 'shown' });
      };
      const timer = window.setTimeout(() => {
        el.hidden = false;
        showOutput();
        if (!connection.hasRun) connection.resync();
        view.keepOpen(model.get('summary'));
      }, OUTPUT_MS);
      cleanups.push(() => clearTimeout(timer));
      if (marker === '') collapse();
      else cleanups.push(onStaticOutput(el, marker, collapse));
    };
    if (isDone()) {
      el.hidden = true;
      finish();
    } else {
      if (marker !== '') requestAnimationFrame(() => (showOutput = holdStaticOutput(el, marker))); // it is in its cell then
      model.on('change:phase', finish);
    }
    return () => {
      showOutput();
      leaveParts();
      for (const cleanup of cleanups) cleanup();
      view.dispose();
    };
  };
};
