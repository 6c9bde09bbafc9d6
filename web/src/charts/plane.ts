// The rectangle of a chart with its two axes, what lies where in it, and the pointer that marks a part of it.
import { type Chart, textNode, textWidth } from "./chart";
import { formatOne, type Kind } from "../elements/format";
import { byteTicks, linearTicks, logTicks, tickTexts } from "./axes";
import { type JsonObject, numberAt } from "../records/data";
import { freshId, svg } from "../elements/dom";

export interface Axis {
  label: string;
  kind: Kind;
  isLog: boolean;
  range: [number, number];
  ticks: (range: [number, number], most: number) => number[];
}

// How far memory can go: "capacity 80 GiB".
export interface Limit {
  label: string;
  value: number;
}

// In the order in which they count: a plan's device has no memory, its card has.
const kLimits = [["device.memory_limit_bytes", "memory limit"], ["capacity_bytes", "capacity"], ["device.total_memory_bytes", "capacity"]] as const;
const kMostLimits = 3;

export function limitOf(record: JsonObject): Limit | null {
  for (const [path, name] of kLimits) {
    const value = numberAt(record, path);
    if (value !== null && value > 0) return { label: `${name} ${formatOne("bytes", value)}`, value };
  }
  return null;
}

// Each limit that the rows know, unless they are many.
export function limitsOf(records: readonly JsonObject[]): Limit[] {
  const found = new Map(records.flatMap((record) => limitOf(record) ?? []).map((limit) => [limit.value, limit]));
  return found.size > kMostLimits ? [] : [...found.values()];
}

// The end of a linear axis, which reaches the limits that are near enough to leave room for the data, and those beyond.
export function reachOf(highest: number, limits: readonly Limit[]): { end: number; within: Limit[]; beyond: Limit[] } {
  const isNear = ({ value }: Limit) => value <= 3 * highest;
  const [within, beyond] = [limits.filter(isNear), limits.filter((limit) => !isNear(limit))];
  return { end: (beyond.length > 0 ? 1.1 : 1.02) * Math.max(highest, ...within.map(({ value }) => value)), within, beyond };
}

// A logarithmic axis of bytes or of amounts may go through several units: 64 MiB, 1 GiB.
const hasUnitAtTicks = ({ kind, isLog }: Axis) => kind === "amount" || (kind === "bytes" && isLog);

export function textsOf(axis: Axis, ticks: readonly number[]): string[] {
  return hasUnitAtTicks(axis) ? ticks.map((tick) => formatOne(axis.kind, tick)) : tickTexts(axis.kind, ticks).texts;
}

// "time, ms (logarithmic)"
export function headingOf(axis: Axis, ticks: readonly number[]): string {
  const unit = hasUnitAtTicks(axis) ? "" : tickTexts(axis.kind, ticks).unit;
  return `${axis.label}${unit === "" ? "" : `, ${unit}`} (${axis.isLog ? "logarithmic" : "linear"})`;
}

export function linearAxis(label: string, kind: Kind, range: [number, number]): Axis {
  return { label, kind, isLog: false, range, ticks: ([from, to], most) => (kind === "bytes" ? byteTicks(to, most) : linearTicks(from, to, most)) };
}

export function logAxis(label: string, kind: Kind, range: [number, number], ticks: Axis["ticks"] = ([min, max], most) => logTicks(min, max, most)): Axis {
  return { label, kind, isLog: true, range, ticks };
}

// Where a value lies between 0 and 1.
export function shareOf({ isLog, range: [from, to] }: Axis, value: number): number {
  return isLog ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
}

function valueAt({ isLog, range: [from, to] }: Axis, share: number): number {
  return isLog ? from * (to / from) ** share : from + share * (to - from);
}

// Around a text that lies on lines.
export const kHalo = { stroke: "var(--page)", "stroke-width": 4, "paint-order": "stroke", "stroke-linejoin": "round" };

export function limitLine(ends: { [name: string]: number }): SVGElement {
  return svg("line", { class: "limit", stroke: "var(--bad)", "stroke-width": 1.5, "stroke-dasharray": "7 4", ...ends });
}

// Where texts stand below lines, so that those of lines that are close do not lie on each other.
export function textsBelow(lines: readonly number[]): number[] {
  const places = new Map<number, number>();
  let last = -Infinity;
  for (const line of [...lines].sort((a, b) => a - b)) places.set(line, (last = Math.max(line + 14, last + 15)));
  return lines.map((line) => places.get(line)!);
}

export class Plane {
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  private readonly yTicks: number[];
  private readonly yTexts: string[];

  constructor(readonly width: number, readonly height: number, readonly top: number, private readonly xAxis: Axis, private readonly yAxis: Axis) {
    this.bottom = height - 44;
    this.yTicks = yAxis.ticks(yAxis.range, 8);
    this.yTexts = textsOf(yAxis, this.yTicks);
    this.left = 30 + Math.max(...this.yTexts.map((text) => textWidth(text)));
    this.right = width - 14;
  }

  x = (value: number) => this.left + shareOf(this.xAxis, value) * (this.right - this.left);
  y = (value: number) => this.bottom - shareOf(this.yAxis, value) * (this.bottom - this.top);
  xValue = (x: number) => valueAt(this.xAxis, (x - this.left) / (this.right - this.left));
  yValue = (y: number) => valueAt(this.yAxis, (this.bottom - y) / (this.bottom - this.top));

  // Grid, ticks and headings; then `inside`, of which nothing is drawn outside of the rectangle and a little above it.
  nodes(inside: readonly SVGElement[], above = 8): SVGElement[] {
    const { left, right, top, bottom } = this;
    const xTicks = this.xAxis.ticks(this.xAxis.range, Math.max(3, Math.floor((right - left) / 70)));
    const xTexts = textsOf(this.xAxis, xTicks);
    const line = (x1: number, y1: number, x2: number, y2: number) => svg("line", { x1, y1, x2, y2, stroke: "var(--grid)" });
    const clip = freshId("clip");
    const middle = (top + bottom) / 2;
    return [
      ...xTicks.flatMap((tick, place) => [line(this.x(tick), top, this.x(tick), bottom + 4), textNode(xTexts[place]!, this.x(tick), bottom + 17, "middle")]),
      ...this.yTicks.flatMap((tick, place) => [line(left - 4, this.y(tick), right, this.y(tick)), textNode(this.yTexts[place]!, left - 7, this.y(tick) + 4, "end")]),
      textNode(headingOf(this.xAxis, xTicks), (left + right) / 2, bottom + 37, "middle"),
      textNode(headingOf(this.yAxis, this.yTicks), 12, middle, "middle", { transform: `rotate(-90 12 ${middle})` }),
      svg("clipPath", { id: clip }, svg("rect", { x: left, y: top - above, width: right - left + 8, height: bottom - top + above + 6 })),
      svg("g", { "clip-path": `url(#${clip})` }, ...inside),
    ];
  }

  // Dashed lines at limits; those beyond the axis stand at its end, with an arrow.
  limitNodes(within: readonly Limit[], beyond: readonly Limit[]): SVGElement[] {
    const nodesOf = (text: string, y: number, textY: number) => [limitLine({ x1: this.left, x2: this.right, y1: y, y2: y }),
      textNode(text, this.right - 4, textY, "end", kHalo)];
    const places = textsBelow(within.map(({ value }) => this.y(value)));
    return [...within.flatMap(({ label, value }, place) => nodesOf(label, this.y(value), places[place]!)),
      ...beyond.flatMap(({ label }, place) => nodesOf(`↑ ${label}, above this axis`, this.top, this.top + 14 + 15 * place))];
  }
}

// Calls back with the rectangle that the mouse has marked, in pixels of the drawing. Fingers scroll the page instead.
export function onMark(chart: Chart, plane: () => Plane, isWhole: boolean, mark: (x: [number, number], y: [number, number]) => void): void {
  let start: [number, number] | null = null;
  const box = svg("rect", { fill: "var(--focus)", opacity: 0.2 });
  const rectangle = (event: PointerEvent): [[number, number], [number, number]] => {
    const { left, top } = chart.plot.getBoundingClientRect(), { left: from, right: to, top: high, bottom: low } = plane();
    const [x, y] = [Math.min(to, Math.max(from, event.clientX - left)), Math.min(low, Math.max(high, event.clientY - top))];
    const sort = (a: number, b: number): [number, number] => (a < b ? [a, b] : [b, a]);
    return [sort(start![0], x), isWhole ? [high, low] : sort(start![1], y)];
  };
  chart.plot.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    const { left, top } = chart.plot.getBoundingClientRect();
    start = [event.clientX - left, event.clientY - top];
    chart.plot.setPointerCapture(event.pointerId);
  });
  chart.plot.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [[x, toX], [y, toY]] = rectangle(event);
    for (const [name, value] of Object.entries({ x, y, width: toX - x, height: toY - y })) box.setAttribute(name, String(value));
    chart.plot.firstElementChild!.append(box);
  });
  chart.plot.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [x, y] = rectangle(event);
    start = null;
    box.remove();
    if (x[1] - x[0] > 4 && y[1] - y[0] > 4) mark(x, y);
  });
}
