import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimelineColumns } from "../src/records/data";
import { keepExtremes, lowerBound } from "../src/charts/downsample";
import { categories } from "../src/records/fields";
import { blocksOf } from "../src/records/blocks";
import { Formulas, levelsOf } from "../src/records/levels";

test("every peak and trough of a million events is drawn", () => {
  const count = 1_000_000, xs = new Float64Array(count), ys = new Float64Array(count);
  for (let i = 0; i < count; ++i) [xs[i], ys[i]] = [i, 1000 + (i % 97)];
  ys[123_456] = 1e6;
  ys[777_777] = -1;
  const picked = keepExtremes(xs, ys, 0, count, 800);
  assert.ok(picked.length <= 4 * 800);
  assert.ok(picked.includes(123_456) && picked.includes(777_777));
  assert.ok(picked.includes(0) && picked.includes(count - 1));
  assert.ok(picked.every((event, place) => place === 0 || event > picked[place - 1]!));
});

test("few events are all drawn, and events of one moment too", () => {
  assert.deepEqual(keepExtremes([1, 2, 3], [1, 1, 1], 1, 3, 100), [1, 2]);
  const same = keepExtremes(new Float64Array(5000), Float64Array.from({ length: 5000 }, (_, i) => i % 7), 0, 5000, 10);
  assert.ok(same.length > 0 && same.some((event) => event % 7 === 6));
});

test("a bound is found in an ascending series", () => {
  assert.deepEqual([0, 1, 1.5, 9].map((x) => lowerBound([1, 2, 3], x)), [0, 0, 1, 3]);
});

const origin = (action: string, category: string, phase: string) => ({ action, category, phase, op: "matmul", module: "layers.3.ffn.w1", source: "" });

test("levels of categories add up to what is allocated", () => {
  const columns: TimelineColumns = {
    origins: [origin("alloc", "parameter", ""), origin("alloc", "activation", "forward"), origin("free", "activation", "backward"), origin("segment_alloc", "", "forward")],
    time_ms: [0, 1, 2, 3], bytes: [100, 999, 40, 40], allocated_bytes: [100, 100, 140, 100], reserved_bytes: [200, 999, 999, 999], iteration: [-1, 1, 1, 1], origin: [0, 3, 1, 2], event: [0, 1, 70, 90],
  };
  const levels = levelsOf(columns);
  assert.deepEqual([...levels.stacks[categories.indexOf("parameter")]!], [100, 100, 100, 100]);
  assert.deepEqual([...levels.stacks[categories.indexOf("activation")]!], [100, 100, 140, 100]);
  assert.deepEqual([...levels.stacks[categories.length - 1]!], columns.allocated_bytes);
  assert.deepEqual(levels.stretches.map(({ phase, begin, end }) => [phase, begin, end]), [["", 0, 1], ["forward", 1, 3], ["backward", 3, 4]]);
  assert.ok(levels.hasTimes);
  assert.deepEqual([...levels.xs.events], columns.event);
});

test("a formula is found for every layer, and none where there are several", () => {
  const group = (formula: string, block_bytes: number) => ({ module: "layers.*.ffn.w1", op: "matmul", block_bytes, formula });
  const formulas = new Formulas([{ memory: { largest_allocations: [group("4 B S F", 64), group("4 B S D", 8), group("4 D F", 8)] } }]);
  assert.equal(formulas.find("layers.11.ffn.w1", "matmul", 64), "4 B S F");
  assert.equal(formulas.find("layers.11.ffn.w1", "matmul", 8), "");
  assert.equal(formulas.find("lm_head", "matmul", 64), "");
});

test("blocks of a flame view stand within their module", () => {
  const scope = (path: string, level: number, time_ms: number) => ({ path, level, time_ms, is_op: false });
  const blocks = blocksOf([scope("a", 1, 5), scope("a.b", 2, 2), scope("a.b.c", 3, 1), scope("a.d", 2, 3), scope("e", 1, 4), scope("e.f", 2, 4)]);
  assert.deepEqual(blocks.map(({ name, begin, time }) => [name, begin, begin + time]),
    [["a", 0, 5], ["b", 0, 2], ["c", 0, 1], ["d", 2, 5], ["e", 5, 9], ["f", 5, 9]]);
});
