import assert from "node:assert/strict";
import { test } from "node:test";
import { summaryOf } from "../src/answers";
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
