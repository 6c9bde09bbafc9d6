import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject, ReportFile } from "../src/records/data";
import { at } from "../src/records/data";
import { groupRecords, labelOf, makeExperiment, namedSettings, ranksOf } from "../src/records/grouping";
import { sendingParts, timesOfTokens } from "../src/report/sending";
import { facetsOf, kMostCurves, sweptSetting } from "../src/records/sweep";

function record(more: JsonObject): JsonObject {
  return { schema: 1, command: "bench", status: "ok", mode: "step", dtype: "fp32", batch: 4, context: 256, model: { name: "tiny", layers: 2 }, ...more };
}

function fileOf(name: string, records: JsonObject[]): ReportFile {
  return { name, part: null, caption: "", is_published: false, records, rows: [], timeline: null, steps: null };
}

test("parts of a study are groups of their own, whatever their command", () => {
  const part = (id: string) => ({ id, title: `The ${id}`, commands: [] });
  const groups = groupRecords([{ ...fileOf("a", [record({})]), part: part("sizes") }, { ...fileOf("b", [record({})]), part: part("warmup") },
    { ...fileOf("paper", [record({})]), part: part("sizes"), is_published: true }]);
  assert.deepEqual(groups.map(({ id, title, records }) => [id, title, records.length]), [["sizes", "The sizes", 2], ["warmup", "The warmup", 1]]);
});

test("published figures of a study's part are told apart by their study, not by a file", () => {
  const part = { id: "sizes", title: "Sizes", commands: [] };
  const [sizes] = groupRecords([{ ...fileOf("a", [record({ engine: "ridgepoint" })]), part },
    { ...fileOf("published figures", [record({ engine: "a_paper" })]), part, is_published: true }]);
  assert.deepEqual(sizes!.records.map((each) => labelOf(each, sizes!.varying)), ["ridgepoint", "published, a_paper"]);
});

test("records of one command are one experiment, from all files", () => {
  const groups = groupRecords([fileOf("a", [record({}), record({ command: "plan" })]), fileOf("b", [record({})])]);
  assert.deepEqual(groups.map(({ command, records }) => [command, records.length]), [["bench", 2], ["plan", 1]]);
  assert.deepEqual(groups[0]!.varying.map(({ path }) => path), ["file"]);
});

test("headings name ranks and what they share, and amounts have three digits", () => {
  assert.deepEqual(ranksOf(record({ parallel: { data: 8, shard: "optimizer" } })), ["8 ranks", "sharded optimizer"]);
  assert.deepEqual(ranksOf(record({ parallel: { data: 2, shard: "none" } })), ["2 ranks"]);
  assert.deepEqual(ranksOf(record({ parallel: { data: null, shard: null } })), []);
  const [sizes] = groupRecords([fileOf("a", [record({ model: { name: "a", parameters: 8190735360 } }), record({ model: { name: "a", parameters: 1235814400 } })])]);
  assert.equal(labelOf(sizes!.records[0]!, sizes!.varying), "8.19 G parameters");
});

test("buckets of one gradient and of all are said in words", () => {
  const bucket = (bucket_bytes: number, overlap: boolean) => record({ parallel: { data: 2, bucket_bytes, overlap } });
  const [ways] = groupRecords([fileOf("a", [bucket(1, false), bucket(2 ** 62, false), bucket(1 << 20, true)])]);
  assert.deepEqual(ways!.records.map((each) => labelOf(each, ways!.varying)),
    ["overlap off, buckets of one gradient", "overlap off, buckets of all gradients", "overlap on, buckets of 1 MiB"]);
});

test("published figures are a setting of their own", () => {
  const [experiment] = groupRecords([fileOf("a", [record({})]), { ...fileOf("paper", [record({})]), is_published: true }]);
  assert.deepEqual(experiment!.varying.map(({ path }) => path), ["published"]);
  const [other] = groupRecords([fileOf("a", [record({ seed: 1, threads: 2, keys: 256 }), record({ seed: 1, threads: 2, context: 9, keys: 9 })]), { ...fileOf("paper", [{ schema: 1, command: "bench", context: 9 }]), is_published: true }]);
  assert.deepEqual(other!.varying.map(({ path }) => path), ["published", "context"]);
  assert.deepEqual(experiment!.records.map((each) => labelOf(each, experiment!.varying)), ["", "published: paper"]);
});

test("settings that vary are told from those that all rows share", () => {
  const experiment = makeExperiment("bench", [record({ context: 128 }), record({ context: 256, mode: "forward" })]);
  assert.deepEqual(experiment.varying.map(({ path }) => path), ["context", "mode"]);
  assert.ok(experiment.constant.some(({ path }) => path === "model.name"));
  assert.equal(labelOf(experiment.records[0]!, experiment.varying), "context 128, step");
});

test("a plan for a card is not named twice, by the card and by the device that stands for it", () => {
  const planned = (card: string, name: string) => record({ card, device: { kind: "null", name } });
  const rows = [planned("H100 SXM", "H100 SXM"), planned("RTX 4090", "RTX 4090"), planned("T4", "AMD EPYC")];
  assert.deepEqual(makeExperiment("plan", rows).varying.map(({ path }) => path), ["card"]);
  const measured = [record({ device: { name: "H100 SXM" } }), record({ device: { name: "RTX 4090" } })];
  assert.deepEqual(makeExperiment("bench", measured).varying.map(({ path }) => path), ["device.name"]);
});

test("the context is the axis, and a memory limit of long contexts makes no curve of its own", () => {
  const widths = [16, 32, 64, 128], contexts = [256, 1024, 4096];
  const rows = widths.flatMap((width) => contexts.map((context) => record({ context, model: { name: "tiny", d_model: width }, time_ms: { median: width },
    device: { memory_limit_bytes: context === 4096 ? 1024 : null } })));
  const experiment = makeExperiment("attention", rows), axis = sweptSetting(experiment)!;
  assert.equal(axis.path, "context");
  const [facet] = facetsOf(experiment, axis, "time_ms.median");
  assert.deepEqual(facet!.curves.map(({ points }) => points.length), [3, 3, 3, 3]);
});

test("a model's sizes are not repeated beside its name", () => {
  const rows = [record({}), record({ model: { name: "small", layers: 12 } })];
  assert.deepEqual(makeExperiment("bench", rows).varying.map(({ path }) => path), ["model.name"]);
  const custom = [record({ model: { name: "custom", layers: 3 } }), record({ model: { name: "custom", layers: 4 } })];
  assert.deepEqual(makeExperiment("bench", custom).varying.map(({ path }) => path), ["model.layers"]);
});

test("every setting of a record that varies tells rows apart", () => {
  const sweeps: [JsonObject[], string, string][] = [
    [[{ parallel: { data: 2, shard: "none" } }, { parallel: { data: 2, shard: "gradients" } }], "parallel.shard", "sharded gradients"],
    [[{ optimizer: "adamw" }, { optimizer: "sgd" }], "optimizer", "sgd"],
    [[{ accumulate: 1 }, { accumulate: 4 }], "accumulate", "4 micro-batches"],
    [[{ window: 64 }, { window: 128 }], "window", "window 128"],
    [[{ master_weights: true }, { master_weights: false }], "master_weights", "master weights off"],
    [[{ causal: true }, { causal: false }], "causal", "not causal"],
  ];
  for (const [rows, path, label] of sweeps) {
    const experiment = makeExperiment("bench", rows.map(record));
    assert.deepEqual(experiment.varying.map((each) => each.path), [path]);
    assert.equal(labelOf(experiment.records[1]!, experiment.varying), label);
  }
});

test("a path through a hostile name finds nothing", () => {
  assert.equal(at({ model: "x" }, "model.name"), null);
  assert.equal(at({}, "constructor.name"), null);
  assert.equal(at({}, "__proto__"), null);
});

const sweep = (attentions: number, modes: string[]) => [64, 128, 256, 512].flatMap((context) => modes.flatMap((mode) =>
  Array.from({ length: attentions }, (_, variant) => record({ context, mode, attention: `variant ${variant}`, time_ms: { median: context + variant } }))));

test("models of three sizes are a sweep over their parameters", () => {
  const rows = [1e6, 1e7, 1e8].map((parameters) => record({ model: { name: `${parameters}`, parameters }, time_ms: { median: parameters / 1e5 } }));
  const experiment = makeExperiment("bench", rows);
  const axis = sweptSetting(experiment)!;
  assert.equal(axis.path, "model.parameters");
  const [facet] = facetsOf(experiment, axis, "time_ms.median");
  assert.deepEqual(facet!.curves.map(({ points }) => points.map(({ x }) => x)), [[1e6, 1e7, 1e8]]);
  assert.equal(sweptSetting(makeExperiment("bench", rows.slice(1))), null);
});

test("three values of a setting are a sweep, two are not", () => {
  assert.equal(sweptSetting(makeExperiment("bench", sweep(1, ["step"])))?.path, "context");
  assert.equal(sweptSetting(makeExperiment("bench", [record({}), record({ context: 1 })])), null);
});

test("many curves are split into charts by what is compared least", () => {
  const experiment = makeExperiment("bench", sweep(6, ["forward", "step"]));
  const facets = facetsOf(experiment, sweptSetting(experiment)!, "time_ms.median");
  assert.deepEqual(facets.map(({ label }) => label), ["forward", "step"]);
  assert.equal(facets[0]!.curves.length, 6);
  assert.ok(6 <= kMostCurves);
  assert.equal(facets[0]!.curves[0]!.label, "variant 0 attention");
});

test("rows that do not fit are marked and keep their place", () => {
  const rows = [64, 128, 256].map((context) => record({ context, status: context === 256 ? "oom" : "ok", time_ms: { median: context === 256 ? null : 1 } }));
  const experiment = makeExperiment("bench", rows);
  const points = facetsOf(experiment, sweptSetting(experiment)!, "time_ms.median")[0]!.curves[0]!.points;
  assert.deepEqual(points.map(({ y, isOom }) => [y, isOom]), [[1, false], [1, false], [null, true]]);
});

test("a setting that does not apply to some rows does not tell rows apart", () => {
  const model = (name: string, trainable: number | null) => ({ name, trainable_parameters: trainable });
  const { varying } = makeExperiment("bench", [record({ mode: "forward", model: model("a", null) }), record({ model: model("a", 9) }), record({ model: model("b", 7) })]);
  assert.deepEqual(varying.map(({ path }) => path), ["model.name", "mode"]);
});

test("the optimizer of a step names no curve beside forward, and is a setting of all rows", () => {
  const rows = [128, 256, 512].flatMap((context) => ["forward", "step"].map((mode) =>
    record({ context, mode, optimizer: mode === "step" ? "adamw" : null, weight_decay: mode === "step" ? 0.01 : null, time_ms: { median: context } })));
  const experiment = makeExperiment("bench", rows);
  assert.deepEqual(experiment.varying.map(({ path }) => path), ["context", "mode"]);
  assert.match(namedSettings(experiment.records, experiment.constant), /optimizer adamw, weight decay 0.01/);
  assert.deepEqual(facetsOf(experiment, sweptSetting(experiment)!, "time_ms.median").flatMap(({ curves }) => curves.map(({ label }) => label)), ["forward", "step"]);
  const others = makeExperiment("bench", [...rows, ...rows.filter(({ mode }) => mode === "step").map((row) => ({ ...row, optimizer: "sgd" }))]);
  assert.deepEqual(others.varying.map(({ path }) => path), ["context", "optimizer", "mode"]);
});

test("the device on which nothing runs is called planned", () => {
  const { records, varying } = makeExperiment("attention", [record({ device: { kind: "cuda" } }), record({ device: { kind: "null" } })]);
  assert.deepEqual(records.map((each) => labelOf(each, varying)), ["cuda", "planned"]);
});

test("the segments of a policy do not tell it from one without segments", () => {
  const policies = [record({ checkpoint: "none", checkpoint_segment: null }), record({ checkpoint: "block", checkpoint_segment: 1 })];
  assert.deepEqual(makeExperiment("bench", policies).records.map((each) => labelOf(each, makeExperiment("bench", policies).varying)), ["checkpoint none", "checkpoint block"]);
});

test("rows that are planned because they do not fit belong to the curve of the device", () => {
  const measured = [128, 256, 512].map((context) => record({ context, device: { kind: "cuda", name: "H200" }, forward_ms: { median: context } }));
  const rows = [...measured, record({ context: 1024, fits: false, device: { kind: "null", name: "H200 SXM" } })];
  const experiment = makeExperiment("attention", rows);
  const [facet] = facetsOf(experiment, sweptSetting(experiment)!, "forward_ms.median");
  assert.deepEqual(facet!.curves.map(({ label, points }) => [label, points.map(({ x, isOom }) => [x, isOom])]), [["", [[128, false], [256, false], [512, false], [1024, true]]]]);
});

test("a step on several ranks is divided by what is sent, measured or predicted", () => {
  const parts = [30, 20, 10];
  assert.deepEqual(sendingParts(record({ parallel: { slowest_ms: 60, communication_ms: 30, exposed_ms: 10 } }), "parallel.", "parallel.slowest_ms"), parts);
  assert.deepEqual(sendingParts(record({ predicted_ms: 60, predicted_communication_ms: 30, predicted_exposed_ms: 10 }), "predicted_", "predicted_ms"), parts);
  assert.deepEqual(sendingParts(record({}), "predicted_", "predicted_ms"), [null, null, null]);
});

test("what is sent hides from the tokens at which computing takes as long", () => {
  const value = (key: string, number: number): JsonObject => ({ key, value: number });
  const rows = [value("symbol.T", 100), value("symbol.U", 1000), value("compute.forward_time", 0.1), value("compute.backward_time", 0.2), value("compute.time", 0.3),
    value("data_parallel.time", 0.3), value("fully_sharded.forward_bytes", 200), value("tensor.time", 0.4)];
  assert.deepEqual(timesOfTokens(rows).map(({ label }) => label), ["forward, computed", "backward, computed", "step, computed",
    "data parallel, gradients behind backward: hidden from 150 tokens", "parameters sharded, behind forward: hidden from 200 tokens", "tensor parallel, activations in a step: never hidden"]);
  assert.deepEqual(timesOfTokens([]), []);
});
