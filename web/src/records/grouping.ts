// Records to experiments: one for each command, or for each part of a study, with the settings that vary apart from
// those that all rows share.
import { at, type Json, type JsonObject, type ReportFile, type StudyPart } from "./data";
import { type Field, measures, settings } from "./fields";
import { formatOne } from "../elements/format";

export interface Experiment {
  id: string;         // of its section
  title: string;
  part: StudyPart | null;
  command: string;
  records: JsonObject[];
  varying: Field[];   // settings, in their order
  constant: Field[];  // settings that all rows share, without those that say nothing
  measured: Field[];  // measures that some row has
}

// A text by which two values of a setting are equal or not.
export function keyOf(record: JsonObject, path: string): string {
  const value = at(record, path);
  return value === null || value === "" ? "" : String(value);
}

function saysNothing(record: JsonObject, path: string): boolean {
  return keyOf(record, path) === "" || (path.startsWith("model.") && at(record, path) === 0);
}

// Whether `path` has one value for all records that agree in the settings `others`.
export function isGivenBy(records: readonly JsonObject[], path: string, others: readonly Field[]): boolean {
  const seen = new Map<string, string>();
  return others.length > 0 && records.every((record) => {
    if (isUnpublished(record, path)) return true;
    const key = JSON.stringify(others.map((other) => keyOf(record, other.path))), value = keyOf(record, path);
    if (!seen.has(key)) seen.set(key, value);
    return seen.get(key) === value;
  });
}

// Rows without a value do not count as different: an optimizer does not apply to forward, nor do trainable parameters.
function isForeign(record: JsonObject, { path, follows, of_some }: Field): boolean {
  return isUnpublished(record, path) || ((of_some === true || follows !== undefined) && saysNothing(record, path));
}

// A published figure seldom comes with every setting; those that it lacks do not count as different.
function isUnpublished(record: JsonObject, path: string): boolean {
  return path !== "published" && isPublished(record) && saysNothing(record, path);
}

export function varyingSettings(records: readonly JsonObject[]): Field[] {
  const valuesOf = (field: Field) => records.filter((record) => !isForeign(record, field)).map((record) => keyOf(record, field.path));
  const varying = settings.filter((field) => new Set(valuesOf(field)).size > 1);
  const paths = new Set(varying.map(({ path }) => path));
  return varying.filter(({ path, follows }) => {
    if (path === "file") return !isGivenBy(records, path, varying.filter((other) => other.path !== "file"));
    const known = records.filter((record) => !saysNothing(record, path));
    return follows === undefined || !paths.has(follows) || !isGivenBy(known, path, varying.filter((each) => each.path === follows));
  });
}

export function makeExperiment(command: string, records: JsonObject[], part: StudyPart | null = null): Experiment {
  const varying = varyingSettings(records);
  const isConstant = (field: Field) => {
    const { path } = field, known = records.filter((record) => !isForeign(record, field));
    return path !== "file" && known.length > 0 && !saysNothing(known[0]!, path) && known.every((record) => keyOf(record, path) === keyOf(known[0]!, path));
  };
  const isKnown = ({ path }: Field) => records.some((record) => !saysNothing(record, path));
  return { id: part?.id ?? command, title: part?.title ?? command, part, command, records, varying, constant: settings.filter((field) => field.path !== "build.revision" && isConstant(field)), measured: measures.filter(isKnown) };
}

// In the order in which commands or parts first appear. Each record gets the name of its file.
export function groupRecords(files: readonly ReportFile[]): Experiment[] {
  const groups = new Map<string, { command: string; part: StudyPart | null; records: JsonObject[] }>();
  for (const file of files) {
    for (const record of file.records) {
      const command = keyOf(record, "command"), key = file.part === null ? command : `part ${file.part.id}`;
      if (!groups.has(key)) groups.set(key, { command, part: file.part, records: [] });
      groups.get(key)!.records.push({ ...record, file: file.name, published: file.is_published ? (file.part === null ? `published: ${file.name}` : "published") : null });
    }
  }
  return [...groups.values()].map(({ command, part, records }) => makeExperiment(command, records, part));
}

// The word that stands for a value of the field. On the null device nothing runs.
export function wordOf(value: unknown, { path, words }: Field): string | undefined {
  if (path === "device.kind" && value === "null") return "planned";
  return words?.find(([number]) => number === value)?.[1];
}

// A revision as a reader wants it.
export function shownRevision(text: string): string {
  return text.replace(/-dirty\b/, " with local changes");
}

// The value of a setting: "256", "1 MiB", "all gradients"; empty where there is none.
export function valueText(value: Json, field: Field): string {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "on" : "off";
  const hasUnit = (field.kind === "bytes" || field.kind === "amount") && typeof value === "number";
  return wordOf(value, field) ?? (hasUnit ? formatOne(field.kind, value) : shownRevision(String(value)));
}

// A setting as words: "context 256", "step", "causal".
export function settingText(record: JsonObject, field: Field): string {
  const { path, label, phrase = "{}" } = field;
  const value = at(record, path);
  if (value === null || value === "") return "";
  if (typeof value === "boolean" && phrase === "{}") return value ? label : `not ${label}`;
  return phrase.replace("{}", () => valueText(value, field));
}

export function labelOf(record: JsonObject, fields: readonly Field[]): string {
  return fields.map((field) => settingText(record, field)).filter((text) => text !== "").join(", ");
}

// Settings that all rows share, with their names: "device cpu, model tiny, batch 4".
export function namedSettings(records: readonly JsonObject[], fields: readonly Field[]): string {
  return fields.map((field) => {
    const { path, label, kind } = field, record = records.find((each) => !saysNothing(each, path)) ?? {};
    const value = at(record, path), word = wordOf(value, field);
    return `${label} ${word !== undefined ? word : typeof value === "number" ? formatOne(kind, value) : value === true ? "yes" : value === false ? "no" : String(value)}`;
  }).join(", ");
}

// A run of several ranks, for headings: ["8 ranks", "sharded optimizer"].
export function ranksOf(record: JsonObject): string[] {
  const ranks = keyOf(record, "parallel.data"), shard = keyOf(record, "parallel.shard");
  if (ranks === "") return [];
  return [`${ranks} ranks`, ...(shard === "" || shard === "none" ? [] : [`sharded ${shard}`])];
}

export function isPublished(record: JsonObject): boolean {
  return keyOf(record, "published") !== "";
}

export function statusOf(record: JsonObject): string {
  return keyOf(record, "status") || "ok";
}
