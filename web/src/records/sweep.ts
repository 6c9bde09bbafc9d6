// Curves of a measure against a swept setting: which setting is swept, which rows make a curve, and which curves share
// a chart.
import { type JsonObject, numberAt } from "./data";
import { type Field, settings } from "./fields";
import { type Experiment, isGivenBy, keyOf, labelOf, statusOf, varyingSettings } from "./grouping";

export interface CurvePoint {
  x: number;
  y: number | null;  // null: not known
  isOom: boolean;
  record: JsonObject;
}

export interface Curve {
  label: string;
  points: CurvePoint[];  // by x
}

export interface Facet {
  label: string;  // empty if there is one
  curves: Curve[];
}

// Models of different names are a sweep over their numbers of parameters.
const kParameters = "model.parameters";
// What the axis may be: the context if it has three values, otherwise the first of these that has the most.
const kAxes = [...settings.filter(({ axis }) => axis === true).map(({ path }) => path), "device.memory_limit_bytes", kParameters];
// What a reader compares within one chart comes last, and published figures stay beside those of this program.
const kFacetsLast = ["published", "engine"];
const kFacetsFirst = ["file", "model.name", "model.d_model", "model.heads", "model.layers", "batch", "context", "keys", "causal", "mode",
  "device.name", "device.kind", "card"];
// These do not tell curves apart where the axis decides them: a study limits the memory of long sequences alone.
const kOfAxis = ["model.name", "device.memory_limit_bytes"];
// Nor do these where rows that have a figure share them: what does not fit is planned on no device.
const kOfDevice = ["device.kind", "device.name", "device.memory_limit_bytes"];
export const kMostCurves = 8;

// The swept setting: three values or more; null if there is none.
export function sweptSetting(experiment: Experiment): Field | null {
  let best: Field | null = null, most = 2;
  for (const path of kAxes) {
    const isOfModels = path === kParameters && experiment.varying.some((each) => each.path === "model.name");
    const field = (isOfModels ? settings : experiment.varying).find((each) => each.path === path);
    if (field === undefined) continue;
    const values = new Set(experiment.records.map((record) => keyOf(record, path)).filter((key) => key !== "")).size;
    if (path === "context" && values > 2) return field;
    if (values > most) [best, most] = [field, values];
  }
  return best;
}

function pointOf(record: JsonObject, axis: Field, measure: string): CurvePoint | null {
  const x = numberAt(record, axis.path);
  if (x === null || x <= 0) return null;
  const isOom = statusOf(record) === "oom" || keyOf(record, "fits") === "false";
  const isPeak = measure === "memory_bytes.peak_allocated";
  const y = numberAt(record, measure) ?? numberAt(record, measure.replace(".median", ".mean")) ?? (isOom && isPeak ? numberAt(record, "memory_bytes.planned_peak") : null);
  return { x, y: y !== null && y > 0 ? y : null, isOom, record };
}

function curvesOf(records: readonly JsonObject[], axis: Field, others: readonly Field[], measure: string): Curve[] {
  const curves = new Map<string, Curve>();
  for (const record of records) {
    const point = pointOf(record, axis, measure);
    if (point === null) continue;
    const key = JSON.stringify(others.map(({ path }) => keyOf(record, path)));
    if (!curves.has(key)) curves.set(key, { label: labelOf(record, others), points: [] });
    curves.get(key)!.points.push(point);
  }
  for (const { points } of curves.values()) points.sort((a, b) => a.x - b.x);
  return [...curves.values()].filter(({ points }) => points.some((point) => point.y !== null));
}

function partition(records: readonly JsonObject[], fields: readonly Field[]): JsonObject[][] {
  const parts = new Map<string, JsonObject[]>();
  for (const record of records) {
    const key = JSON.stringify(fields.map(({ path }) => keyOf(record, path)));
    parts.set(key, [...(parts.get(key) ?? []), record]);
  }
  return [...parts.values()];
}

// The curves of `measure`, at most kMostCurves in a facet as long as settings are left to split by.
export function facetsOf(experiment: Experiment, axis: Field, measure: string): Facet[] {
  const split: Field[] = [];
  const points = experiment.records.flatMap((record) => pointOf(record, axis, measure) ?? []);
  const drawn = points.filter(({ y, isOom }) => y !== null || isOom).map(({ record }) => record);
  const fitting = varyingSettings(points.filter(({ y, isOom }) => y !== null && !isOom).map(({ record }) => record));
  const left = experiment.varying.filter((field) => field.path !== axis.path && !(kOfAxis.includes(field.path) && isGivenBy(drawn, field.path, [axis])) &&
    !(kOfDevice.includes(field.path) && !fitting.includes(field)));
  const candidates = [...left].sort((a, b) => rank(a.path) - rank(b.path));
  for (;;) {
    const facets = partition(drawn, split)
      .map((records) => ({ label: labelOf(records[0]!, split), curves: curvesOf(records, axis, left, measure) }))
      .filter(({ curves }) => curves.length > 0);
    const next = candidates.shift();
    if (next === undefined || facets.every(({ curves }) => curves.length <= kMostCurves)) return facets;
    split.push(next);
    left.splice(left.indexOf(next), 1);
  }
}

function rank(path: string): number {
  const place = kFacetsFirst.indexOf(path);
  return place < 0 ? kFacetsFirst.length + Number(kFacetsLast.includes(path)) : place;
}
