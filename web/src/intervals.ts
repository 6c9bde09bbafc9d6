// Rows compared: median, the middle half of the samples, and their range, on one axis.
import { at, type JsonObject, numberAt } from "./data";
import { el } from "./dom";
import { formatOne } from "./format";
import { type Experiment, labelOf } from "./grouping";
import { tableBehind } from "./table";

export interface Interval {
  label: string;
  min: number;
  low: number;
  median: number;
  high: number;
  max: number;
  ratio: number;  // of the medians, to the first row
}

const kMostRows = 40;

export function intervalsOf(experiment: Experiment): Interval[] {
  const found: Interval[] = [];
  for (const record of experiment.records) {
    const median = numberAt(record, "time_ms.median");
    const [low, , high] = quartilesOf(record);
    if (median === null || median <= 0 || low === undefined || high === undefined) continue;
    found.push({
      label: labelOf(record, experiment.varying), median, low, high, min: numberAt(record, "time_ms.min") ?? low,
      max: numberAt(record, "time_ms.max") ?? high, ratio: median / (found[0]?.median ?? median),
    });
  }
  return found;
}

function quartilesOf(record: JsonObject): number[] {
  const values = at(record, "time_ms.quartiles");
  return Array.isArray(values) ? values.filter((value) => typeof value === "number") : [];
}

// A logarithmic axis where the medians differ by more than a factor of five, otherwise a linear one from 0.
function placeOf(rows: readonly Interval[]): { place: (value: number) => number; isLog: boolean } {
  const least = Math.min(...rows.map(({ min }) => min)), most = Math.max(...rows.map(({ max }) => max));
  if (most / least <= 5) return { place: (value) => (100 * value) / most, isLog: false };
  const [from, to] = [Math.log(least / 1.1), Math.log(most)];
  return { place: (value) => (100 * (Math.log(value) - from)) / (to - from), isLog: true };
}

export function intervals(experiment: Experiment): HTMLElement | null {
  const rows = intervalsOf(experiment);
  if (rows.length < 2 || rows.length > kMostRows) return null;
  const { place, isLog } = placeOf(rows);
  const span = (name: string, from: number, to: number) => {
    const element = el("span", { class: name });
    element.style.left = `${place(from)}%`;
    element.style.width = `${Math.max(0, place(to) - place(from))}%`;
    return element;
  };
  const lines = rows.map((row) => el("div", { class: "bar-row" }, el("span", { class: "bar-label" }, row.label),
    el("div", { class: "interval", "aria-hidden": "true" }, span("range", row.min, row.max), span("half", row.low, row.high), span("median", row.median, row.median)),
    el("span", { class: "bar-total" }, formatOne("ms", row.median))));
  const title = `Time of an iteration: median, the middle half of the samples (box) and their range (line)${isLog ? ", on a logarithmic axis" : ", on an axis from 0"}`;
  const column = (label: string, key: Exclude<keyof Interval, "label">, kind: "ms" | "number" = "ms") => ({ label, kind, values: rows.map((row) => row[key]) });
  const table = tableBehind("The figures of this chart, with ratios", "Intervals", () => [
    { label: "row", kind: "text", values: rows.map(({ label }) => label) }, column("min", "min"), column("25 %", "low"), column("median", "median"),
    column("75 %", "high"), column("max", "max"), column("to the first row", "ratio", "number")]);
  return el("figure", { class: "chart" }, el("figcaption", {}, title), el("div", { class: "bars" }, ...lines), table);
}
