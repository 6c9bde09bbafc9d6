// Writes page.html: the template with the bundled script and style, and one placeholder for the data. The same sources
// give the same bytes. `--check` compares instead of writing, `--tests DIR` bundles the unit tests.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "page.html");

async function bundle(options) {
  const result = await build({
    absWorkingDir: here, bundle: true, minify: true, write: false, target: "es2022", charset: "ascii", ...options,
  });
  return result.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

async function page() {
  const script = await bundle({ entryPoints: ["src/main.ts"], format: "iife" });
  const style = await bundle({ entryPoints: ["src/style.css"] });
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");
  const parts = { script, style, script_hash: hash(script), style_hash: hash(style) };
  return readFileSync(join(here, "src/template.html"), "utf8").replace(/@(script|style|script_hash|style_hash)@/g, (_, name) => parts[name]);
}

const [mode, folder] = process.argv.slice(2);
if (mode === "--tests") {
  const tests = readdirSync(join(here, "test")).filter((name) => name.endsWith("_test.ts")).map((name) => `test/${name}`);
  await build({ absWorkingDir: here, bundle: true, entryPoints: tests, outdir: folder, format: "esm", platform: "node", outExtension: { ".js": ".mjs" } });
} else if (mode === "--check") {
  if (readFileSync(target, "utf8") !== (await page())) {
    console.error("web/page.html is not what web/ builds; run: ./dev web");
    process.exit(1);
  }
} else {
  writeFileSync(target, await page());
}
