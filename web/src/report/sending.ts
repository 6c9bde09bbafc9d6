// What ranks send, beside what they compute: the parts of a step, and by formula how many tokens hide communication.
import { type JsonObject, numberAt, textAt } from "../records/data";
import { formatOne } from "../elements/format";
import { type Mark, scatter } from "../charts/scatter";

export const kSending = ["computes alone", "computes and sends", "waits for what is sent"];

// Of a step on several ranks: the time in which it computes alone, in which it sends too, and in which it waits for what is sent.
export function sendingParts(record: JsonObject, prefix: string, time: string): (number | null)[] {
  const [step, sending, exposed] = [time, `${prefix}communication_ms`, `${prefix}exposed_ms`].map((path) => numberAt(record, path));
  return step == null || sending == null || exposed == null ? kSending.map(() => null) : [step - sending, sending - exposed, exposed].map((part) => Math.max(0, part));
}

// A time of a rank over its tokens: milliseconds of any number of tokens, and of each.
export interface TimeOfTokens {
  label: string;
  isSent: boolean;
  fixed: number;
  each: number;
  from: number;  // the tokens from which it hides; 0 or Infinity: of any number, or of none
}

// From the rows of `plan --explain`; empty if they lack a figure. src/study/pages/rank_pictures.cpp draws the same.
export function timesOfTokens(rows: readonly JsonObject[]): TimeOfTokens[] {
  const at = (key: string) => numberAt(rows.find((row) => textAt(row, "key") === key) ?? {}, "value") ?? NaN;
  const tokens = at("symbol.T"), each = (seconds: number) => (1000 * seconds) / tokens;
  const computed = (label: string, key: string): TimeOfTokens => ({ label: `${label}, computed`, isSent: false, fixed: 0, each: each(at(key)), from: 0 });
  const [forward, backward, step] = [computed("forward", "compute.forward_time"), computed("backward", "compute.backward_time"), computed("step", "compute.time")];
  const sent = (label: string, behind: TimeOfTokens, fixed: number, linear = 0): TimeOfTokens => {
    const spare = behind.each - each(linear), from = spare > 0 ? Math.ceil((1000 * fixed) / spare) : Infinity;
    const words = from === Infinity ? "never hidden" : from === 0 ? "hidden behind any number of tokens" : `hidden from ${formatOne("count", from)} tokens`;
    return { label: `${label}: ${words}`, isSent: true, fixed: 1000 * fixed, each: each(linear), from };
  };
  return [
    forward, backward, step,
    sent("data parallel, gradients behind backward", backward, at("data_parallel.time")),
    sent("parameters sharded, behind forward", forward, at("fully_sharded.forward_bytes") / at("symbol.U")),
    sent("parameters sharded, behind backward", backward, at("fully_sharded.backward_bytes") / at("symbol.U")),
    sent("tensor parallel, activations in a step", step, 0, at("tensor.time")),
    sent("parameters sharded among tensor groups, in a step", step, at("both.parameter_bytes") / at("both.gathering_rate"), at("both.activation_bytes") / at("both.tensor_rate")),
  ].filter((time) => time.fixed + time.each > 0);
}

export function hidingChart(rows: readonly JsonObject[]): HTMLElement | null {
  const times = timesOfTokens(rows), tokens = numberAt(rows.find((row) => textAt(row, "key") === "symbol.T") ?? {}, "value");
  if (tokens === null || tokens <= 0 || !times.some(({ isSent }) => isSent)) return null;
  const marked = [tokens, ...times.map(({ from }) => from).filter((from) => from > 0 && from < Infinity)];
  const low = Math.floor(Math.log2(Math.min(...marked))) - 2, high = Math.ceil(Math.log2(Math.max(...marked))) + 2;
  const grid = Array.from({ length: high - low + 1 }, (_, place) => 2 ** (low + place));
  return scatter({
    title: "From how many tokens of a rank communication hides (hollow: what is sent)", xLabel: "tokens of a rank", xKind: "number", xTicks: "decades", yLabel: "time", yKind: "ms", roofs: [], limits: [],
    series: times.map(({ label, isSent, fixed, each, from }, style) => {
      const xs = fixed > 0 && each > 0 ? grid : [grid[0]!, from > 0 && from < Infinity ? from : tokens, grid[grid.length - 1]!];
      const markOf = (x: number): Mark => ({ x, y: fixed + each * x, shape: isSent ? "hollow" : "dot", size: 1, lines: [`${formatOne("count", x)} tokens`, formatOne("ms", fixed + each * x)] });
      return { label, isJoined: true, isPublished: isSent, style, marks: xs.map(markOf) };
    }),
  });
}
