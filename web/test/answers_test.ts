import assert from "node:assert/strict";
import { test } from "node:test";
import { withUnitsHeld } from "../src/report/answers";

test("a figure keeps its unit on its line", () => {
  assert.equal(withUnitsHeld("products take 71 % of 13.9 ms, 4 x 256 tokens"), "products take 71\u00a0% of 13.9\u00a0ms, 4 x 256\u00a0tokens");
  assert.equal(withUnitsHeld("it takes 2 ms (~ throttled)"), "it takes 2\u00a0ms (~\u00a0throttled)");
  assert.equal(withUnitsHeld("20 steps, 3 Bytes"), "20 steps, 3 Bytes");
});
