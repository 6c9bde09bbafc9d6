// Writes page.html: the template with the bundled script and style, and one placeholder for the data. The same sources
// give the same bytes. `--check` compares instead of writing, `--tests DIR` bundles the unit tests, and `--planner DIR`
// writes DIR/planner.html, with the program that Emscripten made in DIR.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { startedProgram } from "./program.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "page.html");

async function bundle(options) {
  const result = await build({
    absWorkingDir: here, bundle: true, minify: true, write: false, target: "es2022", charset: "ascii", ...options,
  });
  return result.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

// The template of a folder with its script and style, and with `more` parts.
async function page(folder, style_entry, more = {}) {
  const script = await bundle({ entryPoints: [`${folder}/main.ts`], format: "iife" });
  const style = await bundle({ entryPoints: [style_entry] });
  if ([script, ...Object.values(more)].some((text) => /<\/script|<!--/i.test(text)) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");
  const parts = { script, style, script_hash: hash(script), style_hash: hash(style), ...more };
  return readFileSync(join(here, folder, "template.html"), "utf8").replace(/@(script|style|script_hash|style_hash|commands|worker|wasm)@/g, (whole, name) => parts[name] ?? whole);
}
const report = () => page("src/report", "src/elements/style.css");

async function planner(folder) {
  const program = readFileSync(join(folder, "ridgepoint_planner.js"), "utf8");
  const worker = await bundle({ entryPoints: ["src/planner/worker_main.ts"], format: "iife" });
  const wasm = gzipSync(readFileSync(join(folder, "ridgepoint_planner.wasm")), { level: 9 }).toString("base64");
  const run = await startedProgram(folder);
  const all = JSON.parse(run(["completion", "json"]).output).commands;
  const commands = JSON.stringify(all.filter(({ name }) => ["plan", "memory"].includes(name))).replaceAll("<", "\\u003c");
  return page("src/planner", "src/planner/planner.css", { commands, worker: `${program}\n${worker}`, wasm });
}

const [mode, folder] = process.argv.slice(2);
if (mode === "--tests") {
  const tests = readdirSync(join(here, "test")).filter((name) => name.endsWith("_test.ts")).map((name) => `test/${name}`);
  await build({ absWorkingDir: here, bundle: true, entryPoints: tests, outdir: folder, format: "esm", platform: "node", outExtension: { ".js": ".mjs" } });
} else if (mode === "--planner") {
  writeFileSync(join(folder, "planner.html"), await planner(folder));
} else if (mode === "--check") {
  if (readFileSync(target, "utf8") !== (await report())) {
    console.error("web/page.html is not what web/ builds; run: ./dev web");
    process.exit(1);
  }
} else {
  writeFileSync(target, await report());
}
