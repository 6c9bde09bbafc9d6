// Numbers as text. A column of numbers has one unit and one number of decimals, so that digits align.

export type Kind = "text" | "count" | "number" | "ms" | "us" | "bytes" | "share" | "flop_rate" | "byte_rate" | "rate" | "flops" | "error" | "sum" | "amount" | "mixed";

// How the numbers of a column are written: value / divisor, with `decimals`, under a heading with `unit`.
export interface Scale {
  unit: string;
  divisor: number;
  decimals: number;
  exponential: boolean;
}

const kBinary = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]] as const;
const kDecimal = [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15]] as const;

function largestStep(steps: readonly (readonly [string, number])[], value: number): readonly [string, number] {
  let found = steps[0]!;
  for (const step of steps) if (value >= step[1]) found = step;
  return found;
}

function unitOf(kind: Kind, largest: number): [string, number] {
  switch (kind) {
    case "bytes": return [...largestStep(kBinary, largest)];
    case "ms": return ["ms", 1];
    case "us": return ["µs", 1];
    case "share": return ["%", 0.01];
    case "rate": {
      const [prefix, divisor] = largestStep(kDecimal, largest / 10);
      return [prefix + "/s", divisor];
    }
    case "amount": return [...largestStep(kDecimal, largest)];
    case "flop_rate": {
      const [prefix, divisor] = largestStep(kDecimal, largest);
      return [prefix + "flop/s", divisor];
    }
    case "byte_rate": {
      const [prefix, divisor] = largestStep(kDecimal, largest);
      return [prefix + "B/s", divisor];
    }
    case "flops": {
      const [prefix, divisor] = largestStep(kDecimal, largest);
      return [prefix + "flop", divisor];
    }
    default: return ["", 1];
  }
}

// The median of the values that are not 0 has three digits, as far as four decimals (of shares two) allow it.
export function scaleOf(kind: Kind, values: readonly number[]): Scale {
  const sizes = values.map(Math.abs).filter((size) => size > 0).sort((a, b) => a - b);
  const median = sizes[sizes.length >> 1] ?? Infinity;
  const [unit, divisor] = unitOf(kind, sizes[sizes.length - 1] ?? 0);
  if (kind === "sum") return { unit, divisor, decimals: 8, exponential: false };
  if (kind === "error") return { unit, divisor, decimals: 2, exponential: true };
  const whole = kind === "count" || unit === "B" || values.every((value) => Number.isInteger(value / divisor));
  const digits = whole || median === Infinity ? 0 : 2 - Math.floor(Math.log10(median / divisor));
  return { unit, divisor, decimals: Math.min(kind === "share" ? 2 : 4, Math.max(0, digits)), exponential: false };
}

export function formatNumber(value: number, scale: Scale): string {
  if (!Number.isFinite(value)) return "–";
  const scaled = value / scale.divisor;
  if (scale.exponential) return scaled === 0 ? "0" : scaled.toExponential(scale.decimals);
  return withThinSpaces(scaled.toFixed(scale.decimals)).replace("-", "−");
}

// A value of a column in which each row has a unit of its own: with six digits, as a formula would have it.
export function sixDigits(value: number): string {
  const rounded = Number(value.toPrecision(6));
  return (Math.abs(rounded) >= 1e7 ? rounded.toExponential() : withThinSpaces(String(rounded))).replace(/^-/, "−");
}

// One value with its unit, for sentences and hover texts.
export function formatOne(kind: Kind, value: number): string {
  const scale = scaleOf(kind, [value]);
  return formatNumber(value, scale) + (scale.unit === "" ? "" : " " + scale.unit);
}

// 1234567 -> "1 234 567", with narrow no-break spaces.
function withThinSpaces(text: string): string {
  const [whole, fraction] = text.split(".") as [string, string?];
  const grouped = whole.replace(/^-?\d{5,}$/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, "\u202f"));
  return fraction === undefined ? grouped : grouped + "." + fraction;
}

// "1 row", "2 rows".
export function counted(count: number, noun: string): string {
  return `${withThinSpaces(String(count))} ${noun}${count === 1 ? "" : "s"}`;
}

// "a", "a and b", "a, b and c".
export function listed(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return words.slice(0, -1).join(", ") + " and " + words[words.length - 1]!;
}
