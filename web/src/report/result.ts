// The first screen: the device, the models, the figures that one asks for first, and what to think of the rows.
import type { Answer, JsonObject, ReportData, ReportFile } from "../records/data";
import { numberAt, textAt } from "../records/data";
import { el } from "../elements/dom";
import { settings } from "../records/fields";
import { section } from "../elements/fold";
import { counted, formatOne, type Kind, listed } from "../elements/format";
import { type Experiment, isPublished, keyOf, ranksOf, shownRevision, statusOf } from "../records/grouping";
import { limitOf } from "../charts/plane";
import { sortableTable } from "../elements/table";
import { finalLoss, type Run, runsOf } from "./training";

export interface Figure {
  label: string;
  value: string;
  note: string;           // what stands behind the value
  configuration: string;
  section: string;
}

interface Row { record: JsonObject; section: string; }

const distinct = (values: string[]) => [...new Set(values)].filter((value) => value !== "");
const number = (record: JsonObject, path: string) => numberAt(record, path) ?? 0;

// A verdict on all times of a row, not on its samples alone.
const kInDoubt = ["throttled", "disturbed", "too few"];
const doubtOf = (record: JsonObject) => kInDoubt.filter((verdict) => verdict === keyOf(record, "timing.verdict")).map((verdict) => `~\u00a0${verdict}`);

function configurationOf(record: JsonObject): string {
  const compile = keyOf(record, "compile"), dtype = keyOf(record, "dtype"), batch = keyOf(record, "batch"), context = keyOf(record, "context");
  const model = textAt(record, "model.name") || (keyOf(record, "model.d_model") && `d ${keyOf(record, "model.d_model")}`);
  const attention = keyOf(record, "command") === "attention" ? keyOf(record, "attention") : "";
  return [model, attention, dtype, batch && `batch ${batch}`, context && `context ${context}`, ["", "off", "false"].includes(compile) ? "" : "compiled", ...ranksOf(record)].filter((text) => text !== "").join(", ");
}

// Larger models come first, of one model a whole step, of attention and plans the longer sequence, then the faster row.
const weightsOf = (record: JsonObject) => {
  const length = ["attention", "plan"].includes(keyOf(record, "command")) ? number(record, "context") : 0;
  const tokens = number(record, "tokens_per_second") + number(record, "predicted_tokens_per_second");  // a row has one of them
  return [number(record, "model.parameters"), keyOf(record, "mode") === "step" ? 1 : 0, length, number(record, "model.d_model"), tokens, -number(record, "forward_ms.median")];
};

function outweighs(a: JsonObject, b: JsonObject): boolean {
  const [left, right] = [weightsOf(a), weightsOf(b)];
  const place = left.findIndex((weight, each) => weight !== right[each]);
  return place >= 0 && left[place]! > right[place]!;
}

const heaviest = (rows: readonly Row[]) => rows.reduce<Row | null>((best, row) => (best === null || outweighs(row.record, best.record) ? row : best), null);

type Rule = (rows: readonly Row[]) => Figure | null;
type Filter = (record: JsonObject) => boolean;

const ofCommand = (command: string): Filter => (record) => keyOf(record, "command") === command;
const ofMode = (mode: string): Filter => (record) => ["bench", "profile"].includes(keyOf(record, "command")) && keyOf(record, "mode") === mode;

// The value of the main row.
function main(label: string | ((record: JsonObject) => string), path: string, kind: Kind, isMeant: Filter, noteOf: (record: JsonObject) => string = () => ""): Rule {
  return (rows) => {
    const row = heaviest(rows.filter(({ record }) => isMeant(record) && number(record, path) > 0));
    if (row === null) return null;
    const note = [noteOf(row.record), ...(["ms", "share"].includes(kind) ? doubtOf(row.record) : [])].filter((text) => text !== "").join(" ");
    return { label: typeof label === "string" ? label : label(row.record), value: formatOne(kind, number(row.record, path)), note, configuration: configurationOf(row.record), section: row.section };
  };
}

const kNotCompared = ["file", "published", "warmup", "steps", "seed", "build.revision"];

// How many times as much the first value of a setting takes as the second, where all else is the same.
function ratio(label: string, setting: string, from: string, isTo: (value: string) => boolean, path: string, kind: Kind, isMeant: Filter): Rule {
  const others = settings.filter((field) => field.path !== setting && field.follows !== setting && !kNotCompared.includes(field.path));
  return (rows) => {
    const groups = new Map<string, Row[]>();
    for (const row of rows) {
      if (!isMeant(row.record) || number(row.record, path) <= 0) continue;
      const key = JSON.stringify(others.map((other) => keyOf(row.record, other.path)));
      groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    let best: [Row, Row] | null = null;
    for (const group of groups.values()) {
      const before = group.find(({ record }) => keyOf(record, setting) === from);
      const after = heaviest(group.filter(({ record }) => isTo(keyOf(record, setting))));
      if (before !== undefined && after !== null && (best === null || outweighs(before.record, best[0].record))) best = [before, after];
    }
    if (best === null) return null;
    const [before, after] = best.map(({ record }) => number(record, path)) as [number, number];
    const doubts = kind === "bytes" ? [] : [...new Set(best.flatMap(({ record }) => doubtOf(record)))];
    return { label, value: `${formatOne("number", before / after)}×`, note: [`${formatOne(kind, before)} → ${formatOne(kind, after)}`, ...doubts].join(" "), configuration: configurationOf(best[1].record), section: best[1].section };
  };
}

const perSecond = (path: string) => (record: JsonObject) => (number(record, path) > 0 ? formatOne("rate", number(record, path)).replace("/s", " tokens/s") : "");
const ofCapacity = (path: string) => (record: JsonObject) => {
  const limit = limitOf(record);
  return limit === null ? "" : `${formatOne("share", number(record, path) / limit.value)} of ${formatOne("bytes", limit.value)}`;
};
const ofCeiling = (record: JsonObject) => (number(record, "ceiling_share") > 0 ? `${formatOne("share", number(record, "ceiling_share"))} of the measured ceiling` : "");

const [kPeak, kReserved] = ["memory_bytes.peak_allocated", "memory_bytes.peak_reserved"];
const isStep = ofMode("step"), isAttention = ofCommand("attention");
const isItself: Filter = (record) => isAttention(record) && keyOf(record, "attention_fallback") === "";  // not another variant, for lack of a kernel
const isPlanned: Filter = (record) => ofCommand("plan")(record) && keyOf(record, "fits") !== "false";
const isOfModel: Filter = (record) => isStep(record) || isPlanned(record) || ofCommand("memory")(record);

// In the order in which one asks for them; the first that have rows are shown.
const kRules: readonly Rule[] = [
  main("Training step", "time_ms.median", "ms", isStep, perSecond("tokens_per_second")),
  main("MFU of a step", "mfu", "share", isStep, ofCeiling),
  main("Peak memory of a step", kPeak, "bytes", isStep, ofCapacity(kPeak)),
  ratio("Speed-up by bf16", "dtype", "fp32", (value) => value === "bf16", "time_ms.median", "ms", isStep),
  ratio("Speed-up by compilation", "compile", "off", (value) => value !== "off", "time_ms.median", "ms", isStep),
  main("Forward pass", "time_ms.median", "ms", ofMode("forward"), perSecond("tokens_per_second")),
  main("Attention, forward", "forward_ms.median", "ms", isAttention),
  ratio("Speed-up by flash", "attention", "naive", (value) => value === "flash", "forward_ms.median", "ms", isItself),
  ratio("Memory saved by flash", "attention", "naive", (value) => value === "flash", kPeak, "bytes", isItself),
  main("Longest sequence", "context", "count", isAttention),
  main("Peak memory", kPeak, "bytes", isAttention, ofCapacity(kPeak)),
  main((record) => `Predicted ${keyOf(record, "mode").replaceAll("_", " ")}`, "predicted_ms", "ms", isPlanned, perSecond("predicted_tokens_per_second")),
  main("Planned peak", kReserved, "bytes", isPlanned, ofCapacity(kReserved)),
  main("Room left", "room_bytes", "bytes", isPlanned),
  main("Longest sequence that fits", "context", "count", isPlanned),
  main("Memory before backward", "memory_bytes.before_backward", "bytes", isOfModel),
  main("Peak memory", kPeak, "bytes", ofCommand("memory"), ofCapacity(kPeak)),
  main("Least possible peak", "memory_bytes.liveness_lower_bound", "bytes", isOfModel),
];
const kMostFigures = 5;

const ownRows = (experiments: readonly Experiment[]) => experiments.flatMap(({ id, records }) => records.filter((record) => !isPublished(record)).map((record) => ({ record, section: id })));

export function figuresOf(experiments: readonly Experiment[]): Figure[] {
  const rows = ownRows(experiments).filter(({ record }) => statusOf(record) === "ok");
  return kRules.map((rule) => rule(rows)).filter((figure) => figure !== null).slice(0, kMostFigures);
}

export interface Verdicts {
  about: string;
  section: string;
  counts: { text: string; class: "good" | "bad" | "plain" }[];
}

// Counts of values in a given order, without those that do not occur.
function countsOf(values: readonly string[], order: readonly (readonly [string, "good" | "bad" | "plain", string?])[]): Verdicts["counts"] {
  return order.map(([value, kind, text = value]) => ({ text: `${values.filter((each) => each === value).length} ${text}`, class: kind })).filter(({ text }) => !text.startsWith("0 "));
}

export function verdictsOf(answers: readonly Answer[], experiments: readonly Experiment[]): Verdicts[] {
  const rows = ownRows(experiments).map(({ record }) => record);
  const claims = answers.flatMap(({ elsewhere }) => elsewhere.map(({ verdict }) => verdict));
  const states = rows.map((record) => (keyOf(record, "fits") === "false" ? "does not fit" : statusOf(record)));
  const all = [
    { about: counted(claims.length, "published statement"), section: "answers", counts: countsOf(claims, [["confirmed", "good"], ["contradicted", "bad"], ["not comparable", "plain"]]) },
    { about: counted(rows.length, "row"), section: "rows", counts: countsOf(states, [["ok", "good", "finished"], ["oom", "bad", "out of memory"], ["does not fit", "bad", "planned that do not fit"],
      ["unsupported", "bad"], ["error", "bad", "failed"]]) },
    { about: "Timing", section: "rows", counts: countsOf([...rows.map((record) => keyOf(record, "timing.verdict")), ...rows.map((record) => (number(record, "threads_waiting") >= 0.1 ? "waited" : ""))],
      [["steady", "good"], ...kInDoubt.map((verdict) => [verdict, "bad", `~ ${verdict}`] as const), ...["drifting", "bimodal", "outliers"].map((verdict) => [verdict, "plain", `~ ${verdict}`] as const), ["waited", "bad", "with threads that waited for a processor"]]) },
  ];
  return all.filter(({ counts }) => counts.length > 0);
}

function deviceOf(record: JsonObject): string {
  const kind = keyOf(record, "device.kind"), name = keyOf(record, "device.name"), card = keyOf(record, "card");
  const device = name === "" || name === kind ? kind : `${kind} (${name})`;
  return card !== "" && card !== name ? `${device}, card ${card}` : device;
}

function subject(records: readonly JsonObject[]): string {
  const devices = distinct(records.map((record) => [keyOf(record, "device.name") || keyOf(record, "device.kind"), limitOf(record)?.label ?? ""].filter((text) => text !== "").join(", ")));
  const models = distinct([...records].sort((a, b) => number(a, "model.parameters") - number(b, "model.parameters")).map((record) => keyOf(record, "model.name")));
  const days = records.map((record) => textAt(record, "timestamp").slice(0, 10).replaceAll("-", "\u2011")).filter((day) => day !== "").sort();
  return [devices.join("; "), models.length === 0 ? "" : models.length < 3 ? `model ${listed(models)}` : `${models.length} models from ${models[0]!} to ${models[models.length - 1]!}`, days[0] ?? ""].filter((text) => text !== "").join(" · ");
}

// Of the training that ended with the lowest loss.
function trainingFigure(data: ReportData): Figure[] {
  const runs = runsOf(data.files).sort((a, b) => finalLoss(a) - finalLoss(b));
  if (runs.length === 0) return [];
  const [best] = runs as [Run], count = best.steps.step.length;
  return [{ label: "Loss of training", value: finalLoss(best).toFixed(4), note: runs.length > 1 ? `the lowest of ${runs.length} runs` : "of the last tenth of the steps",
    configuration: `${best.name}, ${counted(count, "step")}`, section: "train" }];
}

export function resultSection(data: ReportData, experiments: readonly Experiment[]): HTMLElement {
  const about = subject(ownRows(experiments).map(({ record }) => record));
  const figures = [...figuresOf(experiments), ...trainingFigure(data)].map(({ label, value, note, configuration, section: id }) => el("div", { class: "figure" },
    el("dt", {}, el("a", { href: `#${id}` }, label)), el("dd", { class: "value" }, value), el("dd", {}, note), el("dd", { class: "configuration" }, configuration)));
  const verdicts = verdictsOf(data.answers, experiments).map(({ about: what, section: id, counts }) =>
    el("li", {}, el("a", { href: `#${id}` }, what), ": ", ...counts.flatMap(({ text, class: kind }) => [el("span", { class: `verdict ${kind}` }, text), " "])));
  return el("section", { id: "result" }, el("h2", {}, "Result"), about === "" ? null : el("p", { class: "subject" }, about),
    figures.length === 0 ? null : el("dl", { class: "figures" }, ...figures), verdicts.length === 0 ? null : el("ul", { class: "verdicts" }, ...verdicts));
}

// A trace, or a part of a study, has several tables of one file.
export function filesOf(tables: readonly ReportFile[]): ReportFile[] {
  const files = new Map<string | number, ReportFile[]>();
  tables.forEach((table, place) => {
    const key = table.part === null ? place : table.name;
    files.set(key, [...(files.get(key) ?? []), table]);
  });
  return [...files.values()].map((all) => {
    const [first] = all as [ReportFile], title = distinct(all.map(({ part }) => part?.title ?? "")).join(", ");
    return { ...first, part: first.part && { ...first.part, title }, records: all.flatMap(({ records }) => records), rows: all.flatMap(({ rows }) => rows) };
  });
}

// Where each row is from.
function sentencesOf(data: ReportData, experiments: readonly Experiment[]): string[] {
  const records = experiments.flatMap((experiment) => experiment.records);
  const rows = data.files.reduce((sum, file) => sum + file.rows.length, 0);
  const commands = distinct(experiments.map(({ command }) => command));
  const counts = commands.map((command) => `${records.filter((record) => keyOf(record, "command") === command).length} of ${command}`);
  if (rows > 0) counts.push(data.answers.length > 0 || data.files.some(({ part }) => part !== null) ? `${rows} of other commands` : `${rows} of precision`);
  const events = data.files.reduce((sum, file) => sum + (file.timeline?.time_ms.length ?? 0), 0);
  const sentences: string[] = [];
  if (counts.length > 0) sentences.push(`${counted(records.length + rows, "row")} from ${counted(filesOf(data.files).length, "file")}: ${listed(counts)}.`);
  const published = records.filter(isPublished).length;
  if (published > 0) sentences.push(`${counted(published, "row")} of them ${published === 1 ? "is" : "are"} published figures: hollow marks on thin lines.`);
  if (events > 0) sentences.push(`Timelines of memory have ${counted(events, "event")}.`);
  return sentences;
}

export function rowsSection(data: ReportData, experiments: readonly Experiment[]): HTMLElement {
  const files = filesOf(data.files);
  const entries = files.map((file) => {
    const times = file.records.map((record) => textAt(record, "timestamp")).sort();
    const events = file.timeline === null ? "" : counted(file.timeline.time_ms.length, "event");
    return {
      file: file.name,
      command: distinct(file.records.map((record) => keyOf(record, "command"))).join(", ") || (file.part?.title ?? (file.steps !== null ? "train" : file.rows.length > 0 ? "precision" : "timeline")),
      rows: file.steps !== null ? counted(file.steps.step.length, "step") : file.timeline === null ? counted(file.records.length + file.rows.length, "row") : events,
      device: distinct(file.records.map(deviceOf)).join("; "),
      begin: times[0] ?? "",
      build: distinct(file.records.map((record) => `${keyOf(record, "build.version")} ${shownRevision(keyOf(record, "build.revision"))}`.trim())).join(", "),
    };
  });
  const column = (label: string, key: keyof (typeof entries)[number]) =>
    ({ label, kind: "text" as const, values: entries.map((entry) => entry[key]) });
  const sentences = sentencesOf(data, experiments).map((sentence) => el("li", {}, sentence));
  return section("rows", "Rows and files", counted(files.length, "file"), el("ul", { class: "sentences" }, ...sentences),
    sortableTable("The files of this page", [column("file", "file"), column("command", "command"), column("content", "rows"),
      column("device", "device"), column("first run, UTC", "begin"), column("built from", "build")]));
}
