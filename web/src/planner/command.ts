// Command lines as words: how a shell writes them, and the one that draws the timeline of a plan.
import { type JsonObject, numberAt, textAt } from "../records/data";

// An option of a command, as `ridgepoint completion json` describes it.
export interface OptionDescription {
  names: string[];
  value: string;  // the word for its value; empty for a flag
  value_is_optional: boolean;
  group: string;
  help: string;
  choices: string[];
  takes_list: boolean;
}

export interface CommandDescription {
  name: string;
  options: OptionDescription[];
}

// What the form has: values by the name of the option, "--batch"; a flag that is set has "".
export type Values = ReadonlyMap<string, string>;

export function wordsOf(command: string, values: Values): string[] {
  return [command, ...[...values].flatMap(([name, value]) => (value === "" ? [name] : [name, value]))];
}

export function shellText(words: readonly string[]): string {
  return ["ridgepoint", ...words].map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

// Far above any card: a run that does not fit has its timeline all the same.
const kUnlimited = "1024TiB";

// The command line of `memory` that draws what a plan says; null where there is none: for PyTorch, for one call of
// attention, and where the memory itself decides and does not suffice.
export function timelineWords(values: Values, record: JsonObject, memory: CommandDescription): string[] | null {
  const fits = record["fits"] === true, capacity = numberAt(record, "capacity_bytes");
  const depends = values.get("--checkpoint") === "auto" || values.get("--shard") === "auto" || (values.get("--parallel") ?? "").includes("auto");
  if (textAt(record, "as") !== "ridgepoint" || textAt(record, "status") !== "ok" || (depends && !fits)) return null;
  const known = new Set(memory.options.flatMap(({ names }) => names));
  const taken = new Map([...values].filter(([name]) => known.has(name)));
  const fitted = values.get("--fit"), size = numberAt(record, fitted === "layers" ? "model.layers" : (fitted ?? ""));
  if (fitted !== undefined && size !== null) taken.set(`--${fitted}`, String(size));
  taken.set("--memory-limit", fits && capacity !== null ? String(capacity) : kUnlimited);
  for (const [name, value] of [["--warmup", "0"], ["--steps", "1"]] as const) taken.set(name, value);
  return wordsOf("memory", taken);
}
