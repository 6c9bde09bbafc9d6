// The fields of a record that tables and charts show: settings, which say what was run, and measures. fields.json has them
// from the program's tables of fields (src/record); a test of the program compares it.
import fields from "./fields.json";
import type { Kind } from "../elements/format";

export interface Field {
  path: string;
  label: string;
  kind: Kind;
  phrase?: string;   // of a setting, in a label; {} is the value
  follows?: string;  // the setting that implies it, or that says more in a label
  axis?: boolean;    // a size that the axis of a chart may have
  of_some?: boolean;  // without a value it does not apply: only a step has an optimizer
  words?: readonly [number, string][];  // that stand for some of its numbers
}

// The page itself gives these to a record.
const kOfPage: readonly Field[] = [
  { path: "file", label: "file", kind: "text" },
  { path: "published", label: "published", kind: "text" },
];

export const settings: readonly Field[] = [...kOfPage, ...(fields.settings as Field[])];
export const measures: readonly Field[] = [...(fields.measures as Field[]), { path: "compares", label: "what compares", kind: "text" }];

export const phases: readonly string[] = ["forward", "loss", "recompute", "backward", "zeroing", "optimizer"];

// Memory from what stays to what goes, the order of a stack from below.
export const categories: readonly string[] =
  ["parameter", "optimizer_state", "data", "gradient", "activation", "temporary", "workspace"];
