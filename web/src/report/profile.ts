// Where the time goes: the record of `ridgepoint profile` as a roofline, a flame view by module, and tables.
import { type JsonObject, numberAt, objectsAt, textAt } from "../records/data";
import { el } from "../elements/dom";
import { flame } from "../charts/flame";
import { phases } from "../records/fields";
import { fold, section } from "../elements/fold";
import { counted, formatOne, type Kind } from "../elements/format";
import { type Experiment, labelOf } from "../records/grouping";
import { stackedBars } from "../charts/bars";
import { type Mark, type MarkSeries, scatter } from "../charts/scatter";
import { type Column, sortableTable } from "../elements/table";

export interface Kernel {
  phase: string;
  lines: string[];
  intensity: number;  // operations per byte
  rate: number;       // operations per second
  share: number;      // of kernel time
}

// The rows that have operations and bytes; the others have no place on a roofline.
export function kernelsOf(record: JsonObject): { kernels: Kernel[]; left: number } {
  const rows = objectsAt(record, "profile.recoverable");
  const kernels: Kernel[] = [];
  for (const row of rows) {
    const flops = numberAt(row, "flops") ?? 0, bytes = numberAt(row, "bytes") ?? 0, time = numberAt(row, "time_ms") ?? 0;
    if (flops <= 0 || bytes <= 0 || time <= 0) continue;
    const share = numberAt(row, "share_of_kernel_time") ?? 0;
    const rate = flops / (time / 1000), ofCeiling = numberAt(row, "share_of_ceiling");
    const lines = [textAt(row, "what"), textAt(row, "kernel"), `${formatOne("ms", time)}, ${formatOne("share", share)} of kernel time`,
      `${formatOne("flop_rate", rate)}, ${formatOne("number", flops / bytes)} flop/byte`];
    if (ofCeiling !== null) lines.push(`${formatOne("share", ofCeiling)} of its ceiling, bound by ${textAt(row, "bound_by")}`);
    kernels.push({ phase: textAt(row, "phase"), lines, intensity: flops / bytes, rate, share });
  }
  return { kernels, left: rows.length - kernels.length };
}

function roofsOf(record: JsonObject, kernels: readonly Kernel[]): { label: string; points: [number, number][] }[] {
  const peak = numberAt(record, "profile.matmul_flops_per_second"), bandwidth = numberAt(record, "profile.copy_bytes_per_second");
  if (peak === null || bandwidth === null || peak <= 0 || bandwidth <= 0) return [];
  const ridge = peak / bandwidth;
  const left = Math.min(ridge / 10, ...kernels.map(({ intensity }) => intensity / 1.5));
  const right = Math.max(ridge * 10, ...kernels.map(({ intensity }) => intensity * 1.5));
  return [{ label: `copy ${formatOne("byte_rate", bandwidth)}`, points: [[left, left * bandwidth], [ridge, peak]] },
    { label: `matmul ${formatOne("flop_rate", peak)}`, points: [[ridge, peak], [right, peak]] }];
}

function roofline(record: JsonObject): HTMLElement | null {
  const { kernels, left } = kernelsOf(record);
  if (kernels.length === 0) return null;
  const series: MarkSeries[] = phases.map((phase, style) => ({
    label: phase, isJoined: false, isPublished: false, style,
    marks: kernels.filter((kernel) => kernel.phase === phase).map((kernel): Mark =>
      ({ x: kernel.intensity, y: kernel.rate, shape: "dot", size: 0.6 + 12 * kernel.share, lines: kernel.lines })),
  }));
  const note = left === 0 ? "" : ` ${counted(left, "line")} of the table without operations (copies, fills) ${left === 1 ? "is" : "are"} not drawn.`;
  return scatter({
    title: `Roofline: every kernel by module and op; larger marks take more time.${note}`, xLabel: "operations per byte", xKind: "number", xTicks: "decades",
    yLabel: "rate", yKind: "flop_rate", series: series.filter(({ marks }) => marks.length > 0), roofs: roofsOf(record, kernels), limits: [],
  });
}

const column = (rows: readonly JsonObject[], label: string, path: string, kind: Kind): Column =>
  ({ label, kind, values: rows.map((row) => (kind === "text" ? textAt(row, path) : numberAt(row, path))) });

function timeTable(caption: string, rows: readonly JsonObject[], names: [string, string][], rest: [string, string, Kind][]): HTMLElement | null {
  if (rows.length === 0) return null;
  const usual: [string, string, Kind][] = [["time", "time_ms", "ms"], ["of kernel time", "share_of_kernel_time", "share"], ["calls", "calls", "count"]];
  return sortableTable(caption, [...names.map(([label, path]) => column(rows, label, path, "text")),
    ...[...usual, ...rest].map(([label, path, kind]) => column(rows, label, path, kind))]);
}

// Rows with a phase and a class as bars, a phase each. `path` is their time in milliseconds, or `scale` of it.
export function phasesByClass(title: string, rows: readonly JsonObject[], path: string, scale = 1): HTMLElement | null {
  const classes = [...new Set(rows.map((row) => textAt(row, "class")))];
  const found = phases.filter((phase) => rows.some((row) => textAt(row, "phase") === phase));
  if (found.length === 0) return null;
  const bars = found.map((phase) => ({
    label: phase,
    parts: classes.map((name) => {
      const row = rows.find((each) => textAt(each, "phase") === phase && textAt(each, "class") === name);
      const time = row === undefined ? null : numberAt(row, path);
      return time === null ? null : scale * time;
    }),
  }));
  return stackedBars(title, "ms", classes, bars);
}

function tables(record: JsonObject): (HTMLElement | null)[] {
  const rows = (name: string) => objectsAt(record, `profile.${name}`);
  const idle = rows("idle");
  return [
    timeTable("Kernels", rows("kernels"), [["kernel", "name"]], [["average", "avg_us", "us"], ["median", "median_us", "us"], ["min", "min_us", "us"],
      ["max", "max_us", "us"], ["std", "std_us", "us"]]),
    timeTable("Roofline by module and op", rows("recoverable"), [["what", "what"], ["phase", "phase"], ["kernel", "kernel"], ["bound by", "bound_by"]],
      [["floor", "floor_ms", "ms"], ["of ceiling", "share_of_ceiling", "share"], ["recoverable", "recoverable_ms", "ms"], ["operations", "flops", "flops"], ["bytes", "bytes", "bytes"]]),
    timeTable("Inside attention", rows("attention"), [["part", "part"], ["phase", "phase"]], [["operations", "flops", "flops"], ["bytes", "bytes", "bytes"]]),
    idle.length === 0 ? null : sortableTable("Idle time", [column(idle, "cause", "cause", "text"), column(idle, "time", "time_ms", "ms"),
      column(idle, "of wall time", "share_of_wall_time", "share"), column(idle, "gaps", "gaps", "count"), column(idle, "longest", "longest_us", "us")]),
  ];
}

function summary(record: JsonObject): HTMLElement | null {
  const [kernels, idle, profiled, timed] = ["kernels_ms", "idle_ms", "profiled_ms", "timed_ms"].map((name) => numberAt(record, `profile.time.${name}`));
  if (kernels == null || idle == null || profiled == null || timed == null) return null;
  return el("p", {}, `A profiled step takes ${formatOne("ms", profiled)}: ${formatOne("ms", kernels)} of kernels and ${formatOne("ms", idle)} idle. ` +
    `Without the profiler it takes ${formatOne("ms", timed)}.`);
}

export function profileParts({ records, varying }: Experiment): HTMLElement[] {
  const parts: (HTMLElement | null)[] = [];
  for (const record of records) {
    if (numberAt(record, "profile.steps") === null) continue;
    const label = labelOf(record, varying), kernels = numberAt(record, "profile.time.kernels_ms");
    const own = [summary(record), phasesByClass("Kernel time of a step, by phase and class", objectsAt(record, "profile.classes"), "time_ms"), roofline(record), flame(objectsAt(record, "profile.scopes")), ...tables(record)];
    if (label === "") parts.push(...own);
    else parts.push(fold("h3", label, kernels === null ? "" : `${formatOne("ms", kernels)} of kernels`, ...own));
  }
  return parts.filter((part) => part !== null);
}

export function profileSection(experiment: Experiment | undefined): HTMLElement | null {
  const parts = experiment === undefined ? [] : profileParts(experiment);
  return parts.length === 0 ? null : section("where-time-goes", "Where the time goes", "", ...parts);
}
