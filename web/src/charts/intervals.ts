// Rows compared: median, the middle half of the samples, and their range, on one axis.
import { at, type JsonObject, numberAt } from "../records/data";
import { rowChart } from "./bars";
import { svg } from "../elements/dom";
import { formatOne } from "../elements/format";
import { type Experiment, labelOf } from "../records/grouping";
import { type Axis, linearAxis, logAxis } from "./plane";
import { tableBehind } from "../elements/table";
import { seriesColour } from "../elements/theme";

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
function axisOf(rows: readonly Interval[]): Axis {
  const least = Math.min(...rows.map(({ min }) => min)), most = Math.max(...rows.map(({ max }) => max));
  return most / least <= 5 ? linearAxis("time", "ms", [0, most]) : logAxis("time", "ms", [least / 1.1, most]);
}

export function intervals(experiment: Experiment): HTMLElement | null {
  const rows = intervalsOf(experiment);
  if (rows.length < 2 || rows.length > kMostRows) return null;
  const column = (label: string, key: Exclude<keyof Interval, "label">, kind: "ms" | "number" = "ms") => ({ label, kind, values: rows.map((row) => row[key]) });
  const alternative = tableBehind("The figures of this chart, with ratios", "Intervals", () => [
    { label: "row", kind: "text", values: rows.map(({ label }) => label) }, column("min", "min"), column("25 %", "low"), column("median", "median"),
    column("75 %", "high"), column("max", "max"), column("to the first row", "ratio", "number")]);
  const colour = seriesColour(0);
  return rowChart({
    title: "Time of an iteration: median, the middle half of the samples (box) and their range (line)", axis: axisOf(rows), legend: [], alternative,
    rows: rows.map(({ label, min, low, median, high, max }) => ({
      label, total: formatOne("ms", median),
      draw: (x, y, height) => [
        svg("rect", { x: x(min), y: y + height / 2 - 1, width: x(max) - x(min), height: 2, fill: colour }),
        svg("rect", { x: x(low), y: y + 3, width: Math.max(2, x(high) - x(low)), height: height - 6, fill: colour, opacity: 0.55 }),
        svg("rect", { x: x(median) - 1.5, y, width: 3, height, fill: "var(--text)" })],
    })),
  });
}
