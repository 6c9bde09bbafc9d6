// Where the memory of a run goes: what each phase's peak is made of, and the largest allocations.
import { type JsonObject, numberAt, objectsAt, textAt } from "../records/data";
import { categories, phases } from "../records/fields";
import { section } from "../elements/fold";
import { type Experiment, keyOf, labelOf, ranksOf } from "../records/grouping";
import { type BarRow, stackedBars } from "../charts/bars";
import { limitsOf } from "../charts/plane";
import { type Column, sortableTable } from "../elements/table";

const kMostRows = 40;
const kShownAllocations = 15;
const words = (name: string) => name.replaceAll("_", " ");

function byCategory(level: JsonObject, prefix: string): (number | null)[] {
  return categories.map((category) => numberAt(level, `${prefix}.${category}`));
}

// Peaks by phase, from the record of a single run.
function phaseRows(record: JsonObject): BarRow[] {
  return objectsAt(record, "memory.phases").map((level) => ({ label: textAt(level, "name"), parts: byCategory(level, "by_category") }));
}

function allocationTable(record: JsonObject, label: string): HTMLElement | null {
  const groups = objectsAt(record, "memory.largest_allocations");
  if (groups.length === 0) return null;
  const texts = (name: string, path: string): Column => ({ label: name, kind: "text", values: groups.map((group) => textAt(group, path)) });
  const numbers = (name: string, path: string, kind: "bytes" | "count"): Column => ({ label: name, kind, values: groups.map((group) => numberAt(group, path)) });
  return sortableTable(`Largest allocations of an iteration${label === "" ? "" : `: ${label}`}`, [
    texts("module", "module"), texts("op", "op"), texts("category", "category"), texts("phase", "phase"), numbers("each", "block_bytes", "bytes"),
    texts("formula", "formula"), numbers("times", "blocks", "count"), numbers("at the peak", "at_peak", "count"), texts("made at", "source")], kShownAllocations);
}

// A setting's peaks for every record that knows them (memory and plan).
function peakCharts(experiment: Experiment): HTMLElement[] {
  const { records, varying } = experiment;
  if (records.length < 2 || records.length > kMostRows) return [];
  const rows = records.map((record) => ({ label: labelOf(record, varying), parts: byCategory(record, "peak_by_category") }));
  const known = rows.filter(({ parts }) => parts.some((part) => part !== null));
  const charts = known.length > 0 ? [stackedBars("Memory at the highest peak, by category", "bytes", categories.map(words), known, limitsOf(records))] : [];
  const phased = records.some((record) => phases.some((phase) => numberAt(record, `peak_by_phase.${phase}`) !== null));
  if (!phased) return charts;
  const columns: Column[] = [{ label: "row", kind: "text", values: records.map((record) => labelOf(record, varying)) }];
  for (const phase of phases) {
    const values = records.map((record) => numberAt(record, `peak_by_phase.${phase}`));
    if (values.some((value) => value !== null)) columns.push({ label: phase, kind: "bytes", values });
  }
  return [...charts, sortableTable(`Peaks of ${experiment.command} by phase`, columns)];
}

export function memoryParts(experiments: readonly Experiment[]): HTMLElement[] {
  const parts: HTMLElement[] = [];
  for (const experiment of experiments) {
    parts.push(...peakCharts(experiment));
    for (const record of experiment.records) {
      const label = labelOf(record, experiment.varying);
      const rows = phaseRows(record);
      if (rows.length > 0) {
        const run = [keyOf(record, "model.name"), keyOf(record, "mode"), keyOf(record, "dtype"), `batch ${keyOf(record, "batch")}`, `context ${keyOf(record, "context")}`, ...ranksOf(record)];
        parts.push(stackedBars(`Memory at the peak of each phase (${run.join(", ")})`, "bytes", categories.map(words), rows, limitsOf([record])));
      }
      const table = allocationTable(record, label);
      if (table !== null) parts.push(table);
    }
  }
  return parts;
}

export function memorySection(experiments: readonly Experiment[], timelines: readonly HTMLElement[]): HTMLElement | null {
  const parts = [...timelines, ...memoryParts(experiments)];
  return parts.length === 0 ? null : section("where-memory-goes", "Where the memory goes", "", ...parts);
}
