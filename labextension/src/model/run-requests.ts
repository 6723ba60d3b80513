/** What the view of a run that is over requests of the kernel. */

/** What the kernel replies; `error` is why it could not. */
export interface Reply {
  readonly type: 'reply';
  readonly id: string;
  readonly error?: string;
}

export interface Markdown extends Reply {
  readonly text: string;
}

/** The outcome of going back to before a prompt; `in_cell` is whether the cell contains that prompt. */
export interface Rewound extends Reply {
  readonly prompt: string;
  readonly in_cell: boolean;
  readonly notice: string;
  readonly undo: boolean;
}

export interface Undone extends Reply {
  readonly notice: string;
}

interface Replies {
  readonly markdown: Markdown;
  readonly rewind: Rewound;
  readonly undo_rewind: Undone;
}

/** Asks the kernel to do one of them; `id` is in the reply to it. */
export interface RunRequest {
  readonly type: 'request';
  readonly id: string;
  readonly does: keyof Replies;
}

/** How long a reply may take, in milliseconds. */
const DEADLINE_MS = 10_000;
const NO_REPLY = 'The kernel does not answer. Try again when it is idle, or run the cell again if it was restarted.';

/** Requests of one view, each with the reply to it. Other pages that show the run get no reply to them. */
export class RunRequests {
  private readonly waiting = new Map<string, (reply: Reply) => void>();
  private readonly send: (request: RunRequest) => void;

  constructor(send: (request: RunRequest) => void) {
    this.send = send;
  }

  /** Rejects with a sentence if the kernel cannot do it or does not answer. */
  async request<N extends keyof Replies>(does: N): Promise<Replies[N]> {
    const id = crypto.getRandomValues(new Uint32Array(2)).join('-');
    const reply = await new Promise<Reply>((resolve, reject) => {
      const timer = window.setTimeout(() => reject(new Error(NO_REPLY)), DEADLINE_MS);
      this.waiting.set(id, (received) => {
        clearTimeout(timer);
        resolve(received);
      });
      this.send({ type: 'request', id, does });
    }).finally(() => this.waiting.delete(id));
    if (reply.error !== undefined) throw new Error(reply.error);
    return reply as Replies[N];
  }

  receive(reply: Reply): void {
    this.waiting.get(reply.id)?.(reply);
  }
}
