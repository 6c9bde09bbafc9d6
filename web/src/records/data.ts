// What the page is given: the documents of the files, as `ridgepoint report` writes them into the page.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

// Where and for what an event of a timeline was made. Many events share one.
export interface Origin {
  action: string;
  phase: string;
  category: string;
  op: string;
  module: string;
  source: string;
}

// One value an event in each column.
export interface TimelineColumns {
  origins: Origin[];
  time_ms: number[];
  bytes: number[];
  allocated_bytes: number[];
  reserved_bytes: number[];
  iteration: number[];  // -1: before the first one
  origin: number[];     // index in origins
  event: number[];      // its number in the file, of which the page may have fewer events
}

// Of a training, one value a step in each column; columns without a value are missing.
export interface StepColumns {
  step: number[];
  loss: (number | null)[];  // null: not finite, as in the others
  validation_loss?: (number | null)[];
  learning_rate: number[];
  gradient_norm?: (number | null)[];
  noise_scale?: (number | null)[];
  seconds: number[];
  tokens_per_second: number[];
  mfu?: (number | null)[];
  checkpoint_seconds: number[];  // of the copy behind the step before
  skipped_steps: number[];       // so far
  tokens: number[];              // so far
  returns: number[];             // the steps behind which the run went back to a checkpoint
}

// A part of a study: its files share a section.
export interface StudyPart {
  id: string;
  title: string;
  commands: string[];
}

export interface Answer {
  topic: string;
  question: string;
  sentence: string;
  evidence: { part: string; text: string }[];
  elsewhere: { source: string; text: string; verdict: string; reason: string }[];
}

export interface ReportFile {
  name: string;
  part: StudyPart | null;
  caption: string;        // of the table of `rows`; empty: the usual one
  is_published: boolean;  // figures of others
  records: JsonObject[];  // with `schema` and `command`
  rows: JsonObject[];     // of `ridgepoint precision`
  timeline: TimelineColumns | null;
  steps: StepColumns | null;
}

export interface ReportData {
  title: string;
  made_by: string;
  answers: Answer[];  // of a study
  files: ReportFile[];
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// The value at a dotted path; null where any part of it is missing.
export function at(object: JsonObject, path: string): Json {
  let value: Json = object;
  for (const key of path.split(".")) {
    if (!isObject(value)) return null;
    value = Object.hasOwn(value, key) ? (value[key] ?? null) : null;
  }
  return value;
}

export function numberAt(object: JsonObject, path: string): number | null {
  const value = at(object, path);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function textAt(object: JsonObject, path: string): string {
  const value = at(object, path);
  return typeof value === "string" ? value : "";
}

export function objectsAt(object: JsonObject, path: string): JsonObject[] {
  const value = at(object, path);
  return Array.isArray(value) ? value.filter(isObject) : [];
}
