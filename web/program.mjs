// The planner's program as the page's worker has it, in Node.
import { build } from "esbuild";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// A function that runs a command line in what Emscripten made in a folder: words and more of a Request to a Reply.
export async function startedProgram(folder) {
  const scratch = mkdtempSync(join(tmpdir(), "ridgepoint-program-"));
  try {
    const outfile = join(scratch, "worker.mjs");
    await build({ absWorkingDir: dirname(fileURLToPath(import.meta.url)), bundle: true, entryPoints: ["src/planner/worker.ts"], outfile, format: "esm", platform: "node" });
    Object.assign(globalThis, { self: globalThis, location: { href: "" }, importScripts: () => {} });
    globalThis.createPlanner = createRequire(import.meta.url)(resolve(folder, "ridgepoint_planner.js"));
    const { start, answer } = await import(outfile);
    const program = await start((imports) => WebAssembly.instantiate(readFileSync(join(folder, "ridgepoint_planner.wasm")), imports));
    return (words, more = {}) => answer(program, { id: 0, words, ...more });
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
