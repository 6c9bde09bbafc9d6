// The section of trainings: curves of all runs over one another, what happened in them, and a row for each run.
import { Curves, kXAxes, type Line, type RunEvent, type XName } from "../charts/curves";
import type { ReportFile, StepColumns } from "../records/data";
import { el, freshId } from "../elements/dom";
import { section } from "../elements/fold";
import { counted, type Kind } from "../elements/format";
import { type Column, sortableTable, tableBehind } from "../elements/table";

type Values = readonly (number | null)[];

export interface Run {
  name: string;
  steps: StepColumns;
  xs: { [name in XName]: number[] };
}

const kLast = 0.1;          // the share of the steps that make a final loss
const kSmoothed = 200;      // with more steps a line is a mean, and each step pale behind it
const kSmoothedShare = 0.01;
const kSpike = 1.5;         // times the median of the steps before
const kSpikeWindow = 64;

const finite = (values: Values) => values.filter((value) => value !== null);
const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

export function runsOf(files: readonly ReportFile[]): Run[] {
  return files.flatMap(({ name, steps }, place) => {
    if (steps === null || steps.step.length === 0) return [];
    let seconds = 0;
    const before = files.slice(0, place).filter((other) => other.steps !== null && other.name === name).length;
    return [{ name: before === 0 ? name : `${name} (${before + 1})`, steps, xs: { step: steps.step, tokens: steps.tokens, time: steps.seconds.map((each, place) => (seconds += each + steps.checkpoint_seconds[place]!)) } }];
  });
}

// The mean of the last tenth of the losses.
export function finalLoss({ steps }: Run): number {
  const known = finite(steps.loss);
  return mean(known.slice(-Math.max(1, Math.round(kLast * known.length))));
}

// The mean of each value and those before it, `width` values at most.
export function smoothed(values: readonly number[], width: number): number[] {
  let sum = 0;
  return values.map((value, place) => {
    sum += value - (place >= width ? values[place - width]! : 0);
    return sum / Math.min(width, place + 1);
  });
}

// Checkpoints, and what went wrong.
export function eventsOf({ steps, xs }: Run, run: number): RunEvent[] {
  const events: RunEvent[] = [];
  const add = (place: number, isBad: boolean, text: string) =>
    events.push({ run, xs: { step: xs.step[place]!, tokens: xs.tokens[place]!, time: xs.time[place]! }, y: steps.loss[place]!, isBad, text });
  let before: number[] = [];
  steps.step.forEach((_, place) => {
    const loss = steps.loss[place]!;
    if (steps.checkpoint_seconds[place]! > 0 && place > 0) add(place - 1, false, "checkpoint");
    if (place > 0 && steps.skipped_steps[place]! > steps.skipped_steps[place - 1]!) add(place, true, "updated nothing");
    if (loss === null) return add(place, true, "the loss is not finite");
    if (before.length === kSpikeWindow && loss > kSpike * Math.min(...before) && loss > kSpike * median(before)) return add(place, true, `a spike: above ${kSpike} times the median of the ${kSpikeWindow} losses before`);
    before = [...before.slice(-(kSpikeWindow - 1)), loss];
  });
  for (const step of steps.returns) {
    const after = steps.step.findIndex((each) => each >= step);
    add(after < 0 ? steps.step.length - 1 : after, true, `the run went back to a checkpoint behind step ${step}`);
  }
  return events;
}

function lineOf({ name, xs }: Run, run: number, values: Values, what: string, look: Line["look"]): Line[] {
  const places = values.flatMap((value, place) => (value === null ? [] : [place]));
  if (places.length === 0) return [];
  const pick = (all: readonly number[]) => places.map((place) => all[place]!);
  return [{ run, label: what === "" ? name : `${name}, ${what}`, look, xs: { step: pick(xs.step), tokens: pick(xs.tokens), time: pick(xs.time) }, ys: places.map((place) => values[place]!) }];
}

// Of many steps a mean, so that runs can be told apart.
function linesOf(each: Run, run: number, values: Values, what: string): Line[] {
  const lines = lineOf(each, run, values, what, "line");
  if (lines.length === 0 || lines[0]!.ys.length <= kSmoothed) return lines;
  const [line] = lines as [Line], width = Math.round(kSmoothedShare * line.ys.length) || 1;
  return width < 2 ? lines : [{ ...line, look: "pale" }, { ...line, label: `${line.label}, mean of ${width}`, ys: smoothed(line.ys, width) }];
}

interface Figure { key: keyof StepColumns & ("learning_rate" | "gradient_norm" | "tokens_per_second" | "noise_scale"); title: string; label: string; kind: Kind; hasLog: boolean; fromZero: boolean; }

const kFigures: readonly Figure[] = [
  { key: "gradient_norm", title: "Norm of the gradients, before clipping", label: "norm", kind: "number", hasLog: true, fromZero: false },
  { key: "learning_rate", title: "Learning rate", label: "learning rate", kind: "number", hasLog: false, fromZero: true },
  { key: "tokens_per_second", title: "Speed", label: "tokens", kind: "rate", hasLog: false, fromZero: true },
  { key: "noise_scale", title: "Gradient noise scale", label: "tokens", kind: "amount", hasLog: true, fromZero: false },
];

function charts(runs: readonly Run[]): Curves[] {
  const names = runs.map(({ name }) => name), events = runs.flatMap(eventsOf);
  const loss = new Curves({
    title: "Loss: lines of training, hollow marks of validation", yLabel: "loss", yKind: "number", hasLog: true, fromZero: false, runs: names, events,
    lines: runs.flatMap((run, place) => [...linesOf(run, place, run.steps.loss, ""), ...lineOf(run, place, run.steps.validation_loss ?? [], "validation", "marks")]),
  });
  return [loss, ...kFigures.flatMap(({ key, title, label, kind, hasLog, fromZero }) => {
    const lines = runs.flatMap((run, place) => linesOf(run, place, run.steps[key] ?? [], ""));
    return lines.length === 0 ? [] : [new Curves({ title, yLabel: label, yKind: kind, hasLog, fromZero, runs: names, lines, events: [] })];
  })];
}

function axisChoice(all: readonly Curves[]): HTMLElement {
  const id = freshId("axis");
  const select = el("select", { id }, ...kXAxes.map(([name]) => el("option", { value: name }, name)));
  select.addEventListener("change", () => { for (const each of all) each.setAxis(select.value as XName); });
  return el("p", {}, el("label", { for: id }, "The horizontal axes are "), select);
}

function runTable(runs: readonly Run[]): HTMLElement {
  const column = (label: string, kind: Kind, valueOf: (run: Run) => number | string | null): Column => ({ label, kind, values: runs.map(valueOf) });
  const validation = ({ steps }: Run) => finite(steps.validation_loss ?? []);
  const bad = ({ steps, xs, name }: Run) => eventsOf({ steps, xs, name }, 0).filter(({ isBad }) => isBad).length;
  return sortableTable("Trainings", [
    column("run", "text", ({ name }) => name), column("steps", "count", ({ steps }) => steps.step.length),
    column("last step", "count", ({ steps }) => steps.step[steps.step.length - 1]!),
    column("tokens", "amount", ({ xs }) => xs.tokens[xs.tokens.length - 1]!),
    column("final loss, last tenth", "number", finalLoss),
    column("lowest validation loss", "number", (run) => (validation(run).length > 0 ? Math.min(...validation(run)) : null)),
    column("last validation loss", "number", (run) => validation(run).at(-1) ?? null),
    column("median tokens", "rate", ({ steps }) => median(finite(steps.tokens_per_second))),
    column("median MFU", "share", ({ steps }) => (steps.mfu === undefined ? null : median(finite(steps.mfu)))),
    column("time, s", "number", ({ xs }) => xs.time[xs.time.length - 1]!),
    column("skipped steps", "count", ({ steps }) => steps.skipped_steps[steps.skipped_steps.length - 1]!),
    column("marks", "count", bad),
  ]);
}

function stepsTable({ name, steps }: Run): HTMLElement {
  const kinds: { [key: string]: Kind } = { step: "count", tokens: "count", skipped_steps: "count", tokens_per_second: "rate", mfu: "share", learning_rate: "error" };
  return tableBehind(`Steps of ${name} as a table`, `Steps of ${name}`, () =>
    Object.entries(steps).flatMap(([key, values]) => (key === "returns" ? [] : [{ label: key.replaceAll("_", " "), kind: kinds[key] ?? "number", values: [...(values as Values)] }])));
}

export function trainingSection(files: readonly ReportFile[]): HTMLElement | null {
  const runs = runsOf(files);
  if (runs.length === 0) return null;
  const [loss, ...others] = charts(runs) as [Curves, ...Curves[]];
  const marks = `A short line at the lower edge is a checkpoint. A cross is a step that updated nothing, a loss that is not finite, a spike, or a return to a checkpoint.`;
  return section("train", "train", counted(runs.length, "run"), axisChoice([loss, ...others]), loss.chart.root, el("p", {}, marks),
    el("div", { class: "charts" }, ...others.map(({ chart }) => chart.root)), runTable(runs), ...runs.map(stepsTable));
}
