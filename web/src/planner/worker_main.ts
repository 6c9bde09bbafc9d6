// What the worker of the page starts with. The first message is the program, compressed by gzip.
import { answer, type Request, start } from "./worker";

// The browser compiles what is unpacked already.
function unpacked(packed: ArrayBuffer): Response {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream, { headers: { "Content-Type": "application/wasm" } });
}

let program: ReturnType<typeof start> | null = null;
addEventListener("message", ({ data }: MessageEvent<ArrayBuffer | Request>) => {
  if (data instanceof ArrayBuffer) program = start((imports) => WebAssembly.instantiateStreaming(unpacked(data), imports));
  else program!.then((ready) => postMessage(answer(ready, data))).catch((error: unknown) => setTimeout(() => { throw error; }));
});
