// Axes: the values at which a logarithmic axis has labels, and the units of their labels.
import { formatNumber, type Kind, scaleOf } from "../elements/format";

// 1, 2 and 5 times powers of ten, within the range; powers of ten alone where that gives more than `most`.
export function logTicks(min: number, max: number, most = 9): number[] {
  for (const factors of [[1, 2, 5], [1]]) {
    for (const stride of factors.length > 1 ? [1] : [1, 2, 3, 4, 6]) {
      const ticks: number[] = [];
      for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); ++power) {
        if (power % stride !== 0) continue;
        for (const factor of factors) {
          const value = factor * 10 ** power;
          if (value >= min * (1 - 1e-9) && value <= max * (1 + 1e-9)) ticks.push(Number(value.toPrecision(12)));
        }
      }
      if (ticks.length <= most && ticks.length >= 2) return ticks;
    }
  }
  return [min, max];
}

// Powers of two within the range, at most `most` of them.
export function binaryTicks(min: number, max: number, most = 9): number[] {
  const first = Math.ceil(Math.log2(min) - 1e-9), last = Math.floor(Math.log2(max) + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks: number[] = [];
  for (let power = first; power <= last; ++power) if (power % stride === 0) ticks.push(2 ** power);
  return ticks.length >= 2 ? ticks : [min, max];
}

// The swept values themselves where all are few, otherwise powers of two or every other value, and otherwise logTicks.
export function sweepTicks(values: readonly number[], most = 9): number[] {
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  if (distinct.length <= most) return distinct;
  const powers = distinct.filter((value) => Number.isInteger(Math.log2(value)));
  if (powers.length >= 3) {
    const stride = Math.ceil(powers.length / most);
    return powers.filter((_, place) => (powers.length - 1 - place) % stride === 0);
  }
  if (distinct.length <= 2 * most) return distinct.filter((_, place) => (distinct.length - 1 - place) % 2 === 0);
  return logTicks(distinct[0]!, distinct[distinct.length - 1]!, most);
}

// Multiples of 1, 2 or 5 times a power of ten within the range, at most `most` of them.
export function linearTicks(min: number, max: number, most = 8): number[] {
  const least = (max - min) / most, power = 10 ** Math.floor(Math.log10(least));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10) * power;
  const first = Math.ceil(min / step - 1e-9), count = Math.floor(max / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

// The range of a logarithmic axis: the values, and a little room at both ends.
export function logRange(values: readonly number[], room = 1.25): [number, number] {
  let min = Infinity, max = -Infinity;
  for (const value of values) {
    if (!(value > 0) || !Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return min === Infinity ? [1, 10] : [min / room, max * room];
}

// A tick as short text: "0.05", "200", "1.5 k" in the unit of the largest.
export function tickTexts(kind: Kind, ticks: readonly number[]): { texts: string[]; unit: string } {
  const scale = scaleOf(kind, ticks);
  const texts = ticks.map((tick) => {
    const exact = tick / scale.divisor;
    const scaled = Number.isInteger(exact) ? exact : Number(exact.toPrecision(3));
    return Math.abs(scaled) >= 1e-4 || scaled === 0 ? String(scaled) : formatNumber(tick, { ...scale, exponential: true });
  });
  return { texts, unit: scale.unit };
}

// 1 in 2^k of binary units: ticks of a linear axis of bytes at powers of two of the unit.
export function byteTicks(max: number, most = 6): number[] {
  if (!(max > 0)) return [0];
  let step = 2 ** Math.ceil(Math.log2(max / most));
  if (step < 1) step = 1;
  const ticks: number[] = [];
  for (let value = 0; value <= max; value += step) ticks.push(value);
  return ticks;
}
