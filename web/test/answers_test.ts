import assert from "node:assert/strict";
import { test } from "node:test";
import { summaryOf, withUnitsHeld } from "../src/answers";
import type { Answer } from "../src/data";

const answer = (...verdicts: string[]): Answer => ({
  topic: "Steps", question: "How long?", sentence: "Long.", evidence: [],
  elsewhere: verdicts.map((verdict) => ({ source: "a_paper", text: "Short.", verdict, reason: "" })),
});

test("the verdicts on published statements are counted", () => {
  assert.equal(summaryOf([answer("confirmed", "contradicted"), answer("confirmed")]),
    "2 questions, answered from the rows of this study alone. Of 3 published statements 2 are confirmed and 1 is contradicted.");
});

test("without published statements nothing is counted", () => {
  assert.equal(summaryOf([answer()]), "1 question, answered from the rows of this study alone.");
});

test("a figure keeps its unit on its line", () => {
  assert.equal(withUnitsHeld("products take 71 % of 13.9 ms, 4 x 256 tokens"), "products take 71\u00a0% of 13.9\u00a0ms, 4 x 256\u00a0tokens");
  assert.equal(withUnitsHeld("20 steps, 3 Bytes"), "20 steps, 3 Bytes");
});
