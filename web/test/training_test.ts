import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportFile, StepColumns } from "../src/records/data";
import { eventsOf, finalLoss, runsOf, smoothed } from "../src/report/training";

function file(change: Partial<StepColumns>): ReportFile {
  const step = Array.from({ length: 100 }, (_, place) => place + 1), each = (value: number) => step.map(() => value);
  const steps: StepColumns = { step, loss: step.map((at) => 5 - at / 50), learning_rate: each(1e-3), seconds: each(0.5), tokens_per_second: each(1000),
    checkpoint_seconds: each(0), skipped_steps: each(0), tokens: step.map((at) => 500 * at), returns: [], ...change };
  return { name: "a", part: null, caption: "", is_published: false, records: [], rows: [], timeline: null, steps };
}

const replaced = <T>(values: readonly T[], place: number, value: T) => values.map((each, at) => (at === place ? value : each));

test("a training has steps, tokens and time as its axes", () => {
  const [run] = runsOf([file({}), { ...file({}), steps: null }]);
  assert.equal(run!.xs.tokens[99], 50_000);
  assert.equal(run!.xs.time[99], 50);
  assert.ok(Math.abs(finalLoss(run!) - 3.09) < 1e-9);
});

test("runs of one name are told apart", () => {
  assert.deepEqual(runsOf([file({}), { ...file({}), steps: null }, file({})]).map(({ name }) => name), ["a", "a (2)"]);
});

test("spikes, skipped steps, losses that are not finite, returns and checkpoints are marked", () => {
  const plain = file({}).steps!;
  const marks = (change: Partial<StepColumns>) => eventsOf(runsOf([file(change)])[0]!, 0).map(({ xs, text, isBad }) => [xs.step, isBad, text.split(":")[0]]);
  assert.deepEqual(marks({}), []);
  assert.deepEqual(marks({ loss: replaced(plain.loss, 80, 9) }), [[81, true, "a spike"]]);
  assert.deepEqual(marks({ loss: replaced(plain.loss, 10, 9) }), []);  // too few steps before it
  assert.deepEqual(marks({ loss: replaced(plain.loss, 80, null) }), [[81, true, "the loss is not finite"]]);
  assert.deepEqual(marks({ skipped_steps: plain.step.map((at) => (at > 7 ? 1 : 0)) }), [[8, true, "updated nothing"]]);
  assert.deepEqual(marks({ checkpoint_seconds: replaced(plain.seconds.map(() => 0), 50, 0.1) }), [[50, false, "checkpoint"]]);
  assert.deepEqual(marks({ returns: [60] }), [[60, true, "the run went back to a checkpoint behind step 60"]]);
});

test("a mean follows the values, and has fewer of them at the beginning", () => {
  assert.deepEqual(smoothed([4, 2, 6, 0], 2), [4, 3, 4, 3]);
});
