// The section of one command: what all rows share, curves where a setting is swept, phases, intervals, and the table.
import { at, type JsonObject, numberAt, type ReportFile, type StudyPart } from "../records/data";
import { el } from "../elements/dom";
import { type Field, measures, phases } from "../records/fields";
import { section } from "../elements/fold";
import { counted, formatOne, listed, type Kind } from "../elements/format";
import { attentionGrid } from "../charts/grid";
import { type Experiment, keyOf, labelOf, isPublished, namedSettings, shownRevision, statusOf, valueText, wordOf } from "../records/grouping";
import { intervals } from "../charts/intervals";
import { type BarRow, stackedBars } from "../charts/bars";
import { limitsOf } from "../charts/plane";
import { phasesByClass } from "./profile";
import { type Mark, scatter } from "../charts/scatter";
import { hidingChart, kSending, sendingParts } from "./sending";
import { type CurvePoint, facetsOf, kMostCurves, sweptSetting } from "../records/sweep";
import { type Column, sortableTable, type Value } from "../elements/table";

const kCurves: { [command: string]: [string, string][] } = {
  bench: [["time_ms.median", "Time of an iteration"], ["memory_bytes.peak_allocated", "Peak memory"]],
  profile: [["time_ms.median", "Time of an iteration"]],
  plan: [["predicted_ms", "Predicted time of an iteration"], ["memory_bytes.peak_reserved", "Predicted peak of reserved memory"]],
  attention: [["forward_ms.median", "Time of forward"], ["backward_ms.median", "Time of backward"], ["memory_bytes.before_backward", "Memory before backward"],
    ["memory_bytes.peak_allocated", "Peak memory"]],
  memory: [["memory_bytes.peak_allocated", "Peak memory"], ["memory_bytes.before_backward", "Memory before backward"]],
};

function markOf(point: CurvePoint, axis: Field, field: Field): Mark {
  const lines = [axis.path === "model.parameters" ? keyOf(point.record, "model.name") : `${axis.label} ${formatOne(axis.kind, point.x)}`];
  if (point.y !== null) lines.push(`${field.label}: ${formatOne(field.kind, point.y)}`);
  if (point.isOom) lines.push(field.kind === "bytes" ? "planned; does not fit in memory" : "does not fit in memory");
  for (const path of ["compares", "error.message"]) {
    const text = keyOf(point.record, path);
    if (text !== "") lines.push(text);
  }
  return { x: point.x, y: point.y, shape: point.isOom ? "oom" : isPublished(point.record) ? "hollow" : "dot", size: 1, lines };
}

// A curve looks the same in every chart of the experiment, or where these have too many curves, of its measure.
function sharedStyles(experiment: Experiment, axis: Field, measure: string): (label: string, place: number) => number {
  const labelsOf = (path: string) => facetsOf(experiment, axis, path).flatMap(({ curves }) => curves.map(({ label }) => label));
  const all = [...new Set((kCurves[experiment.command] ?? []).flatMap(([path]) => labelsOf(path)))];
  const own = [...new Set(labelsOf(measure))];
  const labels = [all, own].find(({ length }) => length <= kMostCurves);
  return (label, place) => labels?.indexOf(label) ?? place;
}

function curveCharts(experiment: Experiment): HTMLElement[] {
  const axis = sweptSetting(experiment);
  if (axis === null) return [];
  const charts: HTMLElement[] = [];
  for (const [path, title] of kCurves[experiment.command] ?? []) {
    const styleOf = sharedStyles(experiment, axis, path);
    const field = measures.find((each) => each.path === path)!;
    for (const facet of facetsOf(experiment, axis, path)) {
      const series = facet.curves.map(({ label, points }, place) => ({
        label, style: styleOf(label, place), isJoined: true, isPublished: isPublished(points[0]!.record),
        marks: points.filter(({ y, isOom }) => y !== null || isOom).map((point) => markOf(point, axis, field)),
      }));
      const isOom = facet.curves.some(({ points }) => points.some((point) => point.isOom));
      charts.push(scatter({
        title: `${title} against ${axis.label}${facet.label === "" ? "" : `: ${facet.label}`}${isOom ? " (× does not fit in memory)" : ""}`,
        xLabel: axis.label, xKind: axis.path === "model.parameters" ? "amount" : "number", xTicks: "swept", yLabel: title[0]!.toLowerCase() + title.slice(1), yKind: field.kind, series, roofs: [],
        limits: field.kind === "bytes" ? limitsOf(facet.curves.flatMap(({ points }) => points.map(({ record }) => record))) : [],
      }));
    }
  }
  return charts;
}

function timeChart({ records, varying }: Experiment, title: string, parts: readonly string[], partsOf: (record: JsonObject) => (number | null)[]): HTMLElement | null {
  const rows: BarRow[] = records.map((record) => ({ label: labelOf(record, varying) || keyOf(record, "mode"), parts: partsOf(record) }));
  const known = rows.filter((row) => row.parts.some((part) => part !== null));
  return known.length === 0 || known.length > 60 ? null : stackedBars(title, "ms", parts, known);
}

// What a step is made of, measured or predicted.
function timeCharts(experiment: Experiment): (HTMLElement | null)[] {
  const phasesAt = (prefix: string) => (record: JsonObject) => phases.map((phase) => numberAt(record, `${prefix}.${phase}`));
  return [
    timeChart(experiment, "Time by phase", phases, phasesAt("phase_ms")),
    timeChart(experiment, "Predicted time by phase", phases, phasesAt("predicted_phase_ms")),
    timeChart(experiment, "Time of a step by what is sent", kSending, (record) => sendingParts(record, "parallel.", "parallel.slowest_ms")),
    timeChart(experiment, "Predicted time of a step by what is sent", kSending, (record) => sendingParts(record, "predicted_", "predicted_ms")),
  ];
}

const kLast = ["error.message", "timestamp"];  // columns

function cellOf(record: JsonObject, { path }: Field): Value {
  const value = at(record, path);
  if (path === "timestamp" && typeof value === "string") return value.replace("T", " ").replace("Z", "");
  if (path === "build.revision") return shownRevision(String(value ?? ""));
  return typeof value === "object" ? null : value;
}

function recordTable(experiment: Experiment): HTMLElement {
  const { records, varying, constant } = experiment;
  const isBad = records.some((record) => statusOf(record) !== "ok");
  const fields = [...varying, ...(isBad ? [{ path: "status", label: "status", kind: "text" } as Field] : []), ...[false, true].flatMap((isLast) => experiment.measured.filter(({ path }) => kLast.includes(path) === isLast))];
  const isCountOnly = varying.length === 0 && records.length > 0 && !isBad;
  const named = isCountOnly ? constant.filter(({ path }) => path === "mode" || path === "model.name").reverse() : [];
  const columns: Column[] = [...named, ...fields].map((field) => {
    // Beside a word for a number each number has its own unit.
    const hasWords = records.some((record) => wordOf(at(record, field.path), field) !== undefined);
    const values = records.map((record) => (hasWords ? valueText(at(record, field.path), field) : cellOf(record, field)));
    return { label: field.label, kind: hasWords ? "text" : field.kind, values, isKey: varying.includes(field) };
  });
  return sortableTable(`Rows of ${experiment.command}`, columns);
}

// The command lines that a part of a study ran.
function commandLines(part: StudyPart | null): HTMLElement | null {
  if (part === null || part.commands.length === 0) return null;
  return el("details", { class: "commands" }, el("summary", {}, part.commands.length === 1 ? "Command line" : "Command lines"),
    el("pre", {}, part.commands.join("\n")));
}

// `more`, of a study, is what its section has before the table: the profile of a record, the timeline of a run.
export function experimentSection(experiment: Experiment, more: readonly HTMLElement[] = []): HTMLElement {
  const { command, records, constant, varying } = experiment;
  const shared = constant.length > 0 ? `All rows: ${namedSettings(records, constant)}.` : "";
  const charts = curveCharts(experiment);
  const elements: (HTMLElement | null)[] = [
    ...timeCharts(experiment),
    ...(command === "bench" ? [intervals(experiment)] : []), ...(command === "attention" ? [attentionGrid(experiment)] : []),
  ];
  const published = records.filter(isPublished).length;
  const note = published === 0 ? counted(records.length, "row") : `${counted(records.length - published, "row")}, ${published} published`;
  return section(experiment.id, experiment.title, note, commandLines(experiment.part),
    shared === "" ? null : el("p", { class: "shared" }, shared),
    varying.length === 0 || records.length < 2 ? null : el("p", {}, `The rows differ in ${listed(varying.map(({ label }) => label))}.`),
    charts.length > 0 ? el("div", { class: "charts" }, ...charts) : null, ...elements, ...more, recordTable(experiment));
}

// The section of a part of a study whose rows are no records.
export function partRowsSection(part: StudyPart, files: readonly ReportFile[]): HTMLElement | null {
  const tables = files.flatMap(({ rows, caption }) => rowTables(rows, caption || part.title, true));
  return tables.length === 0 ? null : section(part.id, part.title, counted(files.reduce((sum, { rows }) => sum + rows.length, 0), "row"), commandLines(part), hidingChart(files.flatMap(({ rows }) => rows)), traceChart(files), ...tables);
}

// Of a trace, whose classes of kernels are one of its tables.
function traceChart(files: readonly ReportFile[]): HTMLElement | null {
  const rows = files.flatMap((file) => file.rows).filter((row) => "phase" in row && "class" in row && "total_us" in row);
  return phasesByClass("Kernel time by phase and class", rows, "total_us", 0.001);
}

export function precisionSection(rows: readonly JsonObject[]): HTMLElement | null {
  if (rows.length === 0) return null;
  return section("precision", "precision", counted(rows.length, "row"), ...rowTables(rows, "Relative errors against double precision", false));
}

const kKinds: { [key: string]: Kind } = { bytes: "bytes", flops: "flops", bytes_per_second: "byte_rate", flops_per_second: "flop_rate" };

function kindOf(key: string): Kind {
  if (Object.hasOwn(kKinds, key)) return kKinds[key]!;
  if (key === "relative_error" || key.endsWith(".forward") || key.endsWith(".gradient")) return "error";
  if (key === "result") return "sum";
  if (key.endsWith("_bytes")) return "bytes";
  if (key.endsWith("_us")) return "us";
  if (key.startsWith("share_of_")) return "share";
  if (key === "value" || key === "planned") return "mixed";
  return "number";
}

function columnOf(key: string, rows: readonly JsonObject[]): Column {
  const values = rows.map((row) => { const value = row[key] ?? null; return typeof value === "object" ? null : value; });
  return { label: key.replace(/_(bytes|us)$/, "").replaceAll("_", " ").replace(".", " "), kind: kindOf(key), values };
}

const kMostColumns = 8;  // of a table that repeats what all rows share

// The tables of rows that are no records, such as those of `ridgepoint precision`: one for each set of columns, or, if
// they belong together, one with every column. What all rows share then stands above.
function rowTables(rows: readonly JsonObject[], usual: string, isOne: boolean): HTMLElement[] {
  if (rows.length === 0) return [];
  const groups = new Map<string, JsonObject[]>();
  for (const row of rows) {
    const key = isOne ? "" : Object.keys(row).join("\n");
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()].flatMap((group) => {
    const keys = [...new Set(group.flatMap((row) => Object.keys(row)))].filter((key) => key !== "key" && group.some((row) => (row[key] ?? "") !== ""));
    const shared = isOne && group.length > 1 && keys.length > kMostColumns ? keys.filter((key) => group.every((row) => row[key] === group[0]![key])) : [];
    const words = shared.map((key) => columnOf(key, group)).map(({ label, kind, values: [value] }) =>
      `${label} ${typeof value === "number" ? formatOne(kind, value) : value === true ? "yes" : value === false ? "no" : String(value)}`);
    const caption = keys[0] === "statement" ? "Sums in each number type" : keys[0] === "part" && !isOne ? "Types under autocast" : usual;
    const table = sortableTable(caption, keys.filter((key) => !shared.includes(key)).map((key) => columnOf(key, group)));
    return words.length === 0 ? [table] : [el("p", { class: "shared" }, `All rows: ${words.join(", ")}.`), table];
  });
}
