// What the worker of the page starts with. The first message is the program, compressed by gzip.
import { answer, type Request, start } from "./worker";

async function unpacked(packed: ArrayBuffer): Promise<ArrayBuffer> {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

let program: ReturnType<typeof start> | null = null;
addEventListener("message", ({ data }: MessageEvent<ArrayBuffer | Request>) => {
  if (data instanceof ArrayBuffer) program = unpacked(data).then(start);
  else program!.then((ready) => postMessage(answer(ready, data))).catch((error: unknown) => setTimeout(() => { throw error; }));
});
