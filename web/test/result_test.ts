import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer, JsonObject, ReportFile } from "../src/records/data";
import { makeExperiment, shownRevision } from "../src/records/grouping";
import { limitsOf, reachOf, textsBelow } from "../src/charts/plane";
import { figuresOf, filesOf, verdictsOf } from "../src/report/result";

const step = (ms: number, more: JsonObject = {}): JsonObject => ({
  command: "bench", mode: "step", dtype: "fp32", compile: "off", batch: 4, context: 256, model: { name: "small", parameters: 1e8 },
  time_ms: { median: ms }, tokens_per_second: 1e6 / ms, memory_bytes: { peak_allocated: 2 ** 30 }, device: { kind: "cuda", total_memory_bytes: 2 ** 34 }, ...more,
});
const figuresOfRows = (...records: JsonObject[]) => figuresOf([makeExperiment("bench", records)]).map(({ label, value, note, configuration }) => [label, value, note, configuration]);

test("the figures of steps are those of the largest model, and ratios compare rows that differ in one setting", () => {
  const large = { model: { name: "large", parameters: 1e9 } };
  assert.deepEqual(figuresOfRows(step(10), step(80, large), step(40, { ...large, dtype: "bf16" }), step(5, { compile: "full", timing: { verdict: "throttled" } }), step(1, { published: "a paper", ...large })), [
    ["Training step", "40 ms", "25 k tokens/s", "large, bf16, batch 4, context 256"],
    ["Peak memory of a step", "1 GiB", "6.25 % of 16 GiB", "large, bf16, batch 4, context 256"],
    ["Speed-up by bf16", "2×", "80 ms → 40 ms", "large, bf16, batch 4, context 256"],
    ["Speed-up by compilation", "2×", "10 ms → 5 ms ~\u00a0throttled", "small, fp32, batch 4, context 256, compiled"],
  ]);
});

test("the figures of plans are those of a step, the fastest, where there are others", () => {
  const plan = (mode: string, ms: number): JsonObject => ({
    command: "plan", mode, dtype: "bf16", batch: 1, context: 512, model: { name: "small", parameters: 1e8 }, fits: true, predicted_ms: ms,
    predicted_tokens_per_second: 512e3 / ms, memory_bytes: { peak_reserved: ms * 2 ** 20 }, capacity_bytes: 2 ** 30,
  });
  const longest = ["Longest sequence that fits", "512", "", "small, bf16, batch 1, context 512"];
  assert.deepEqual(figuresOfRows(plan("forward", 10), plan("step", 32), plan("step", 64)), [
    ["Predicted step", "32 ms", "16 k tokens/s", "small, bf16, batch 1, context 512"],
    ["Planned peak", "32 MiB", "3.13 % of 1 GiB", "small, bf16, batch 1, context 512"], longest,
  ]);
  assert.deepEqual(figuresOfRows(plan("forward_backward", 10))[0]![0], "Predicted forward backward");
});

test("what flash saves is of rows that ran as flash", () => {
  const call = (attention: string, bytes: number, more: JsonObject = {}): JsonObject => ({ command: "attention", attention, context: 1024, memory_bytes: { peak_allocated: bytes }, ...more });
  const labels = (more: JsonObject) => figuresOfRows(call("naive", 400), call("flash", 100, more)).map(([label]) => label);
  assert.ok(labels({}).includes("Memory saved by flash"));
  assert.ok(!labels({ attention_fallback: "recompute" }).includes("Memory saved by flash"));
});

test("what has no row, or only rows that failed, has no figure", () => {
  assert.deepEqual(figuresOfRows(), []);
  assert.deepEqual(figuresOfRows(step(10, { status: "oom" })), []);
  assert.deepEqual(figuresOfRows(step(10), step(5, { dtype: "bf16", batch: 8 })).map(([label]) => label), ["Training step", "Peak memory of a step"]);
});

test("published statements, rows and timings are counted by their verdicts", () => {
  const answer = (...verdicts: string[]): Answer =>
    ({ topic: "", question: "", sentence: "", evidence: [], elsewhere: verdicts.map((verdict) => ({ source: "", text: "", verdict, reason: "" })) });
  const rows = [step(1, { timing: { verdict: "steady" } }), step(1, { timing: { verdict: "throttled" } }), step(1, { status: "oom" }), step(1, { published: "a paper" })];
  const verdicts = verdictsOf([answer("confirmed", "contradicted"), answer("confirmed")], [makeExperiment("bench", rows)]);
  assert.deepEqual(verdicts.map(({ about, counts }) => [about, ...counts.map(({ text }) => text)]), [["3 published statements", "2 confirmed", "1 contradicted"],
    ["3 rows", "2 finished", "1 out of memory"], ["Timing", "1 steady", "1 ~ throttled"]]);
});

test("the tables of a trace are one file, and those of two files of one name are not", () => {
  const table = (id: string | null, rows: JsonObject[]): ReportFile =>
    ({ name: "a.json", part: id === null ? null : { id, title: `trace of ${id}`, commands: [] }, caption: "", is_published: false, records: [], rows, timeline: null, steps: null });
  const files = filesOf([table("0", [{}]), table(null, []), table("0", [{}, {}]), table("1", [{}]), table(null, [])]);
  assert.deepEqual(files.map(({ part, rows }) => [part?.title, rows.length]), [["trace of 0, trace of 1", 4], [undefined, 0], [undefined, 0]]);
});

test("a linear axis reaches limits that leave room for the data", () => {
  const limits = limitsOf([step(1), step(1, { capacity_bytes: 2 ** 35, device: { total_memory_bytes: 2 ** 60 } })]);
  assert.deepEqual(limits.map(({ label }) => label), ["capacity 16 GiB", "capacity 32 GiB"]);
  const { end, within, beyond } = reachOf(2 ** 33, limits);
  assert.deepEqual([end > 2 ** 34 && end < 2 ** 35, within.length, beyond.length], [true, 1, 1]);
});

test("the names of two limits that are close do not lie on each other", () => {
  assert.deepEqual(textsBelow([100, 20, 22]), [114, 34, 49]);
});

test("a revision with local changes says so in words", () => {
  assert.equal(shownRevision("Made by ridgepoint 0.1.0 (250bd892570c-dirty)."), "Made by ridgepoint 0.1.0 (250bd892570c with local changes).");
});
