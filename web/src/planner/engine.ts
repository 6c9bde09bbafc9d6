// The side of the page: sends command lines to the worker, one at a time, and drops those that nobody waits for any more.
import type { Reply, Request } from "./worker";

export function contentOf(id: string): string {
  return document.getElementById(id)!.textContent!;
}

function bytesOf(base64: string): ArrayBuffer {
  const letters = atob(base64), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes.buffer;
}

type Task = Omit<Request, "id">;

export class Engine {
  private worker = this.started();
  private last = 0;
  private hasAnswered = false;
  private failure: string | null = null;  // why the program does not start, in this browser
  private waiting: { task: Task; done: (reply: Reply) => void; isWanted: () => boolean }[] = [];
  private running: { id: number; done: (reply: Reply) => void } | null = null;

  private started(): Worker {
    const worker = new Worker(URL.createObjectURL(new Blob([contentOf("ridgepoint-worker")], { type: "text/javascript" })));
    const packed = bytesOf(contentOf("ridgepoint-wasm"));
    worker.postMessage(packed, [packed]);
    worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
      this.hasAnswered = true;
      this.finish(data);
    });
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      worker.terminate();
      if (this.hasAnswered) this.worker = this.started();  // what has failed in the middle is in no state to go on
      else this.failure = `The planner did not start: ${event.message}. It needs a browser of 2023 or newer.`;
      this.fail(this.failure ?? `The planner stopped: ${event.message}`);
    });
    return worker;
  }

  private fail(message: string): void {
    if (this.running !== null) this.finish({ id: this.running.id, code: -1, output: "", messages: message, timeline: null });
  }

  private finish(reply: Reply): void {
    const { running } = this;
    if (running === null || running.id !== reply.id) return;
    this.running = null;
    running.done(reply);
    this.next();
  }

  private next(): void {
    if (this.running !== null) return;
    const task = this.waiting.shift();
    if (task === undefined) return;
    if (!task.isWanted()) return this.next();
    this.running = { id: ++this.last, done: task.done };
    if (this.failure !== null) this.fail(this.failure);
    else this.worker.postMessage({ ...task.task, id: this.last });
  }

  run(task: Task, isWanted: () => boolean = () => true): Promise<Reply> {
    return new Promise((done) => {
      this.waiting = this.waiting.filter((each) => each.isWanted());
      this.waiting.push({ task, done, isWanted });
      this.next();
    });
  }
}
