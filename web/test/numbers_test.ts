import assert from "node:assert/strict";
import { test } from "node:test";
import { binaryTicks, byteTicks, linearTicks, logRange, logTicks, sweepTicks, tickTexts } from "../src/charts/axes";
import { formatNumber, formatOne, listed, scaleOf, sixDigits } from "../src/elements/format";
import { sortedRows } from "../src/elements/table";

test("a column has one unit and enough decimals for its median", () => {
  const scale = scaleOf("bytes", [3 * 2 ** 30, 2 ** 29, 2 ** 29]);
  assert.equal(scale.unit, "GiB");
  assert.equal(formatNumber(2 ** 29, scale), "0.500");
  assert.equal(formatOne("ms", 0.0744), "0.0744 ms");
  assert.equal(formatOne("ms", 1693.2), "1693 ms");
  assert.equal(formatOne("share", 0.7331), "73.3 %");
  assert.equal(formatOne("flop_rate", 65.8e9), "65.8 Gflop/s");
  assert.equal(formatOne("count", 2986624), "2\u202f986\u202f624");
  assert.equal(formatOne("count", -12), "−12");
  assert.equal(formatNumber(1.3e-5, scaleOf("error", [1.3e-5])), "1.30e-5");
});

test("values of a column with several units have six digits each", () => {
  assert.deepEqual([989400000000000, 2.35e-5, 6553600, -12, 0].map(sixDigits), ["9.894e+14", "0.0000235", "6\u202f553\u202f600", "−12", "0"]);
});

test("sentences list words", () => {
  assert.deepEqual([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(listed), ["", "a", "a and b", "a, b and c"]);
});

test("logarithmic axes have 1, 2 and 5, or powers of ten over a wide range", () => {
  assert.deepEqual(logTicks(1, 10), [1, 2, 5, 10]);
  assert.deepEqual(logTicks(0.9, 2e6, 7), [1, 10, 100, 1000, 10000, 100000, 1e6]);
  assert.deepEqual(logRange([0, 10, 1000, -1, NaN], 2), [5, 2000]);
  assert.deepEqual(logRange([]), [1, 10]);
});

test("axes of bytes have powers of two", () => {
  assert.deepEqual(binaryTicks(0.9, 9), [1, 2, 4, 8]);
  assert.deepEqual(binaryTicks(1, 1024, 6), [1, 4, 16, 64, 256, 1024]);
});

test("linear axes have multiples of 1, 2 or 5", () => {
  assert.deepEqual(linearTicks(0, 55, 6), [0, 10, 20, 30, 40, 50]);
  assert.deepEqual(linearTicks(0.31, 0.42, 5), [0.35, 0.4]);
});

test("a swept axis is labelled with what was swept", () => {
  assert.deepEqual(sweepTicks([256, 64, 128, 64]), [64, 128, 256]);
  assert.deepEqual(sweepTicks(Array.from({ length: 12 }, (_, place) => 2 ** place), 6), [2, 8, 32, 128, 512, 2048]);
  assert.deepEqual(sweepTicks([129, 423, 969, 2000, 3410], 3), [129, 969, 3410]);
});

test("ticks share a unit", () => {
  assert.deepEqual(tickTexts("bytes", [2 ** 29, 2 ** 30]), { texts: ["0.5", "1"], unit: "GiB" });
  assert.deepEqual(tickTexts("number", [256, 4096]).texts, ["256", "4096"]);
  assert.deepEqual(byteTicks(5 * 2 ** 20, 6), [0, 1, 2, 3, 4, 5].map((step) => step * 2 ** 20));
});

test("rows without a value come last in both directions", () => {
  assert.deepEqual(sortedRows([3, null, 1, 2], false), [2, 3, 0, 1]);
  assert.deepEqual(sortedRows([3, null, 1, 2], true), [0, 3, 2, 1]);
  assert.deepEqual(sortedRows(["b10", "b9", ""], false), [1, 0, 2]);
});
