// What the page is about, in sentences, and where each row is from.
import { type JsonObject, numberAt, type ReportData, textAt } from "./data";
import { el } from "./dom";
import { counted, formatOne, listed } from "./format";
import { type Experiment, isPublished, keyOf, ranksOf, statusOf } from "./grouping";
import { sortableTable } from "./table";

const distinct = (values: string[]) => [...new Set(values)].filter((value) => value !== "");

export function deviceOf(record: JsonObject): string {
  const kind = keyOf(record, "device.kind"), name = keyOf(record, "device.name"), card = keyOf(record, "card");
  const device = name === "" || name === kind ? kind : `${kind} (${name})`;
  return card !== "" && card !== name ? `${device}, card ${card}` : device;
}

// The sentences of the overview.
export function overviewSentences(data: ReportData, experiments: readonly Experiment[]): string[] {
  const records = experiments.flatMap((experiment) => experiment.records);
  const rows = data.files.reduce((sum, file) => sum + file.rows.length, 0);
  const commands = distinct(experiments.map(({ command }) => command));
  const counts = commands.map((command) => `${records.filter((record) => keyOf(record, "command") === command).length} of ${command}`);
  if (rows > 0) counts.push(data.answers.length > 0 ? `${rows} of other commands` : `${rows} of precision`);
  const events = data.files.reduce((sum, file) => sum + (file.timeline?.time_ms.length ?? 0), 0);
  const sentences: string[] = [];
  if (counts.length > 0) sentences.push(`${counted(records.length + rows, "row")} from ${counted(data.files.length, "file")}: ${listed(counts)}.`);
  const published = records.filter(isPublished).length;
  if (published > 0) sentences.push(`${counted(published, "row")} of them ${published === 1 ? "is" : "are"} published figures: hollow marks on dashed lines.`);
  if (events > 0) sentences.push(`Timelines of memory have ${counted(events, "event")}.`);
  const devices = distinct(records.map(deviceOf));
  if (devices.length > 0) sentences.push(`${devices.length === 1 ? "Device" : "Devices"}: ${devices.join("; ")}.`);
  const models = distinct(records.map((record) => keyOf(record, "model.name")));
  if (models.length > 0) sentences.push(`${models.length === 1 ? "Model" : "Models"}: ${listed(models)}.`);
  sentences.push(...problemSentences(records));
  sentences.push(...bestSentences(experiments));
  return sentences;
}

function problemSentences(records: readonly JsonObject[]): string[] {
  const count = (status: string) => records.filter((record) => statusOf(record) === status).length;
  const [oom, unsupported, failed] = [count("oom"), count("unsupported"), count("error")];
  const sentences: string[] = [];
  if (oom > 0) sentences.push(`${counted(oom, "row")} ran out of memory.`);
  if (unsupported > 0) sentences.push(`${counted(unsupported, "row")} could not run on this device or build.`);
  if (failed > 0) sentences.push(`${counted(failed, "row")} failed.`);
  const tooLarge = records.filter((record) => keyOf(record, "fits") === "false").length;
  if (tooLarge > 0) sentences.push(`${tooLarge} of the plans ${tooLarge === 1 ? "does" : "do"} not fit in memory.`);
  if (records.length > 0 && sentences.length === 0) sentences.push("Every row finished.");
  const waiting = records.filter((record) => (numberAt(record, "threads_waiting") ?? 0) >= 0.1).length;
  if (waiting > 0) sentences.push(`In ${counted(waiting, "row")} threads waited for a processor, so these times are too long.`);
  return sentences;
}

function bestSentences(experiments: readonly Experiment[]): string[] {
  const timed = experiments.filter(({ command }) => command === "bench").flatMap(({ records }) => records);
  const rate = (record: JsonObject) => numberAt(record, "tokens_per_second") ?? 0;
  const steps = timed.filter((record) => !isPublished(record) && textAt(record, "mode") === "step" && rate(record) > 0);
  if (steps.length < 2) return [];
  const best = steps.reduce((a, b) => (rate(b) > rate(a) ? b : a));
  const run = `${keyOf(best, "model.name")}, ${keyOf(best, "dtype")}, batch ${keyOf(best, "batch")}, context ${[keyOf(best, "context"), ...ranksOf(best)].join(", ")}`;
  return [`The fastest step has ${formatOne("rate", rate(best)).replace("/s", " tokens/s")} (${run}).`];
}

function sourcesTable(data: ReportData): HTMLElement {
  const entries = data.files.map((file) => {
    const times = file.records.map((record) => textAt(record, "timestamp")).sort();
    const events = file.timeline === null ? "" : counted(file.timeline.time_ms.length, "event");
    return {
      file: file.name,
      command: distinct(file.records.map((record) => keyOf(record, "command"))).join(", ") || (file.rows.length > 0 ? "precision" : "timeline"),
      rows: file.timeline === null ? counted(file.records.length + file.rows.length, "row") : events,
      device: distinct(file.records.map(deviceOf)).join("; "),
      begin: times[0] ?? "",
      build: distinct(file.records.map((record) => `${keyOf(record, "build.version")} ${keyOf(record, "build.revision")}`.trim())).join(", "),
    };
  });
  const column = (label: string, key: keyof (typeof entries)[number]) =>
    ({ label, kind: "text" as const, values: entries.map((entry) => entry[key]) });
  return sortableTable("The files of this page", [column("file", "file"), column("command", "command"), column("content", "rows"),
    column("device", "device"), column("first run, UTC", "begin"), column("built from", "build")]);
}

export function overview(data: ReportData, experiments: readonly Experiment[]): HTMLElement {
  const sentences = overviewSentences(data, experiments).map((sentence) => el("li", {}, sentence));
  const sources = sourcesTable(data);
  // The sections of a study name their files.
  const shown = data.answers.length === 0 ? sources : el("details", {}, el("summary", {}, `The ${counted(data.files.length, "file")} of this page`), sources);
  return el("section", { id: "overview" }, el("h2", {}, "Overview"), el("ul", { class: "sentences" }, ...sentences), shown);
}
