// The command lines of the planner's page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type CommandDescription, shellText, timelineWords, wordsOf } from "../src/planner/command";

const option = (name: string) => ({ names: [name], value: "X", value_is_optional: false, group: "", help: "", choices: [], takes_list: false });
const memory: CommandDescription = { name: "memory", options: ["--model", "--card", "--batch", "--checkpoint", "--memory-limit"].map(option) };
const plan = { as: "ridgepoint", status: "ok", fits: true, capacity_bytes: 1000, batch: 7 };

test("a command line is one that a shell reads", () => {
  assert.equal(shellText(wordsOf("plan", new Map([["--card", "H100 SXM"], ["--keep-output", ""], ["--network", "8x it's"]]))), "ridgepoint plan --card 'H100 SXM' --keep-output --network '8x it'\\''s'");
});

test("a timeline is that of the plan, within its memory if the plan fits", () => {
  const values = new Map([["--model", "small"], ["--card", "L4"], ["--keep-free", "2GiB"], ["--fit", "batch"]]);
  assert.deepEqual(timelineWords(values, plan, memory), ["memory", "--model", "small", "--card", "L4", "--batch", "7", "--memory-limit", "1000", "--warmup", "0", "--steps", "1"]);
  assert.equal(timelineWords(values, { ...plan, fits: false }, memory)?.[8], "1024TiB");
});

test("nothing draws what PyTorch allocates, a failed plan, or a choice that found no room", () => {
  assert.equal(timelineWords(new Map(), { ...plan, as: "torch" }, memory), null);
  assert.equal(timelineWords(new Map(), { ...plan, status: "error" }, memory), null);
  assert.equal(timelineWords(new Map([["--checkpoint", "auto"]]), { ...plan, fits: false }, memory), null);
});
