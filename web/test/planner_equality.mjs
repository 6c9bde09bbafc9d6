// The planner of the web page and the program say the same, to the byte: every model of the catalogue, and every kind of
// setting.
//   node test/planner_equality.mjs PROGRAM FOLDER_OF_THE_WASM [MODELS]
// MODELS, separated by commas, are in place of all. Exits with 77 where one of the two is missing, or they are of different
// revisions.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [program, folder, models] = [resolve(process.argv[2]), resolve(process.argv[3]), process.argv[4]];
const scratch = mkdtempSync(join(tmpdir(), "ridgepoint-planner-"));

const kBuild = /"build":\{[^}]*\},"timestamp":"[^"]*"/g;
const native = (words) => {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: "utf8", maxBuffer: 1 << 30, cwd: scratch });
  return { code: status, output: stdout.replaceAll(kBuild, "").trimEnd(), messages: stderr.trimEnd() };
};

const kSettings = [
  ["--compile", "off,fuse,full", "--mode", "forward,training_forward,forward_backward,step"], ["--dtype", "fp32,tf32,bf16,fp16,fp8"],
  ["--attention", "naive,composite,softmax,weights,recompute,flash"], ["--checkpoint", "none,attention,selective,block,nested,auto"],
  ["--optimizer", "adamw,adamw-8bit,sgd,lion", "--accumulate", "1,4"], ["--allocator", "caching,arena", "--batch", "1,3", "--context", "1000,4096"],
  ["--master-weights", "off", "--loss-chunk", "off,512"], ["--lora", "r=16,alpha=32,targets=q_proj,v_proj"], ["--frozen", "token_embeddings,layers.0"],
  ["--parallel", "data=8", "--shard", "none,optimizer,gradients,parameters,auto"], ["--parallel", "data=64,bucket=auto", "--network", "8x NVLink 450 GB/s, 400 Gb/s InfiniBand"],
  ["--fit", "batch"], ["--fit", "context"], ["--as", "torch,torch-fused", "--checkpoint", "none,block"], ["--layers", "3", "--vocab", "777"],
  ["--as", "torch", "--optimizer", "adamw,sgd", "--dtype", "fp32,bf16"], ["--lora", "r=4,alpha=8,targets=q_proj", "--optimizer", "lion,sgd", "--compile", "off,full"],
  ["--parallel", "data=8", "--shard", "none,parameters", "--accumulate", "2", "--optimizer", "adamw-8bit"],
];
const kCards = ["A100 80GB SXM", "RTX 4090", "L4", "H200 SXM", "B200", "RTX 3090"];
const kWrong = [["--card", "h1000"], ["--batch", "none"], ["--lora", "r=16,targets=nothing"], ["--modle", "tiny"], ["--model", "llama-9"], ["--card", "h100", "--memory-limit", "1GiB"]];

// One of each kind of layers that the catalogue has, with few of them.
const kFamilies = ["gpt2", "gemma-2-2b", "phi-3-mini-4k", "qwen3-0.6b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3", "qwen3-next-80b-a3b", "gemma-3n-e2b",
  "phi-3.5-moe", "falcon-h1-0.5b", "nemotron-nano-9b-v2"];

function skip(reason) {
  console.log(`skipped: ${reason}; run: ./dev web planner`);
  process.exitCode = 77;
}

// Where the two first differ, with what stands before it.
function difference(found, wanted) {
  let at = 0;
  while (at < wanted.length && found[at] === wanted[at]) ++at;
  return ` at ${at}:\n  the page     ...${found.slice(Math.max(0, at - 80), at + 60)}\n  the program  ...${wanted.slice(Math.max(0, at - 80), at + 60)}`;
}

const revisionOf = (output) => /"revision":"[^"]*"/.exec(output)?.[0];

async function main() {
  const missing = [program, join(folder, "ridgepoint_planner.wasm"), fileURLToPath(new URL("../node_modules/esbuild", import.meta.url))].find((path) => !existsSync(path));
  if (missing !== undefined) return skip(`${missing} is missing`);
  const { startedProgram } = await import("../program.mjs");
  const run = await startedProgram(folder);
  const tiny = ["plan", "--model", "tiny", "--card", "H100 SXM", "--format", "jsonl"];
  const revisions = [spawnSync(program, tiny, { encoding: "utf8" }).stdout, run(tiny).output].map(revisionOf);
  if (revisions[0] !== revisions[1]) return skip(`the two are of different revisions: ${revisions.join(" and ")}`);
  const answers = { rows: 0, lines: 0 };
  const same = (words, { isFile = false } = {}) => {
    const wanted = native(words), { code, output, messages } = run(words, isFile ? { files: [{ path: "/dropped/config.json", text: readFileSync(join(scratch, "dropped/config.json"), "utf8") }] } : {});
    const found = { code, output: output.replaceAll(kBuild, "").trimEnd(), messages: messages.trimEnd() };
    for (const part of Object.keys(wanted)) assert.ok(found[part] === wanted[part], `${words.join(" ")}: ${part}${difference(String(found[part]), String(wanted[part]))}`);
    answers.rows += wanted.output.split("\n").filter((line) => line.startsWith("{")).length;
    ++answers.lines;
    return wanted;
  };
  const plan = (...words) => same(["plan", ...words, "--format", "jsonl"]);
  const listed = models ?? same(["models", "--format", "jsonl"]).output.split("\n").map((line) => JSON.parse(line).model).join(",");
  for (const name of listed.split(",")) plan("--model", name, "--card", "H100 SXM");
  for (const settings of kSettings) plan("--model", "small,llama-3.2-1b", "--card", "H100 SXM", ...settings);
  for (const name of models ? [] : kFamilies) plan("--model", name, "--layers", "4", "--card", "H100 SXM", "--dtype", "fp32,bf16", "--compile", "off,full", "--attention", "naive,flash");
  plan("--model", "small,llama-3.1-8b", "--card", kCards.join(","));
  for (const words of kWrong) assert.notEqual(plan("--model", "tiny", "--card", "H100 SXM", ...words).code, 0);
  mkdirSync(join(scratch, "dropped"));
  writeFileSync(join(scratch, "dropped/config.json"), JSON.stringify({ model_type: "llama", hidden_size: 256, intermediate_size: 688, num_hidden_layers: 3, num_attention_heads: 8, num_key_value_heads: 2, vocab_size: 5000, rms_norm_eps: 1e-5 }));
  same(["plan", "--model", "dropped/config.json", "--card", "H100 SXM", "--format", "jsonl"], { isFile: true });
  for (const more of [[], ["--compile", "off"]]) same(["memory", "--model", "small", "--card", "H100 SXM", "--format", "jsonl", ...more]);
  const { timeline } = run(["memory", "--model", "small", "--card", "H100 SXM", "--format", "json"], { timeline: 1000 });
  assert.ok(JSON.parse(timeline).event.length > 100);
  const alone = run(["plan", "--model", "tiny", "--format", "json"]);
  assert.match(alone.output, /a web page has no processor to plan for; name a card/);
  console.log(`the same, to the byte: ${answers.rows} rows of ${answers.lines} command lines`);
}

try {
  await main();
} finally {
  rmSync(scratch, { recursive: true });
}
