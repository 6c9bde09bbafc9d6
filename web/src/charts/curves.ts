// Lines over the steps of trainings, one run over another. However long they are, they are drawn from a few points a
// pixel, taken again whenever the view changes; the vertical axis then fits what is in view.
import { logRange } from "./axes";
import { Chart, type Drawing } from "./chart";
import { el, freshId, svg } from "../elements/dom";
import { keepExtremes, lowerBound } from "./downsample";
import { formatOne, type Kind } from "../elements/format";
import { lineNode, markNode } from "./marks";
import { linearAxis, logAxis, onMark, Plane } from "./plane";

export type XName = "step" | "tokens" | "time";
export const kXAxes: readonly (readonly [XName, Kind])[] = [["step", "count"], ["tokens", "amount"], ["time", "number"]];

// Points with a value, in ascending order of every x.
export interface Line {
  run: number;       // its entry of the legend, colour and dashes
  label: string;
  look: "line" | "pale" | "marks";  // marks: points that a thin line joins
  xs: { [name in XName]: number[] };
  ys: number[];
}

export interface RunEvent {
  run: number;
  xs: { [name in XName]: number };
  y: number | null;  // null: at the upper edge
  isBad: boolean;    // otherwise at the lower edge
  text: string;
}

export interface CurvesSpec {
  title: string;
  yLabel: string;
  yKind: Kind;
  hasLog: boolean;   // the reader chooses between a linear and a logarithmic axis
  fromZero: boolean;
  runs: readonly string[];
  lines: readonly Line[];
  events: readonly RunEvent[];
}

const kHeight = 340;
const kRadius = 4;
const kHelp = "Drag, + or − to zoom, double click or Escape for everything; arrow keys go from step to step.";

export class Curves {
  readonly chart: Chart;
  private plane!: Plane;
  private isLog = false;
  private range: [number, number];
  private current: number | null = null;  // an x

  constructor(private readonly spec: CurvesSpec, private axis: XName = "step") {
    this.range = this.everything();
    const legend = spec.runs.map((label, run) => ({ label: spec.lines.some((line) => line.run === run) ? label : "", swatch: [lineNode([[0, 6], [22, 6]], run, false)] }));
    this.chart = new Chart({ title: spec.title, help: kHelp, legend, controls: spec.hasLog ? this.scaleChoice() : null, alternative: null, draw: (width) => this.draw(width) });
    this.chart.redraw();
    this.listen();
  }

  setAxis(axis: XName): void {
    this.axis = axis;
    this.current = null;
    this.view(...this.everything());
  }

  private scaleChoice(): HTMLElement {
    const id = freshId("scale");
    const select = el("select", { id }, el("option", { value: "linear" }, "linear"), el("option", { value: "logarithmic" }, "logarithmic"));
    select.addEventListener("change", () => {
      this.isLog = select.value === "logarithmic";
      this.view(...this.range);
    });
    return el("p", {}, el("label", { for: id }, "The vertical axis is "), select);
  }

  private everything(): [number, number] {
    const ends = this.spec.lines.flatMap(({ xs }) => [xs[this.axis][0]!, xs[this.axis][xs[this.axis].length - 1]!]);
    const first = Math.min(...ends), last = Math.max(...ends);
    return last > first ? [first, last] : [first, first + 1];
  }

  private view(from: number, to: number): void {
    const [first, last] = this.everything();
    this.range = [Math.max(first, from), Math.min(last, Math.max(to, from + (last - first) * 1e-6))];
    this.chart.hideTip();
    this.chart.redraw();
  }

  // The points of the view, and one at each side of it.
  private within({ xs, ys }: Line, width: number): number[] {
    const x = xs[this.axis], [from, to] = this.range;
    return keepExtremes(x, ys, Math.max(0, lowerBound(x, from) - 1), Math.min(x.length, lowerBound(x, to) + 2), width);
  }

  private draw(width: number): Drawing {
    const { spec } = this, shown = spec.lines.map((line) => this.within(line, width));
    const values = shown.flatMap((points, place) => points.map((point) => spec.lines[place]!.ys[point]!)).filter((value) => !this.isLog || value > 0);
    const least = values.reduce((a, b) => Math.min(a, b), Infinity), most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    const room = 0.04 * (most - least) || Math.abs(most) * 0.1 || 1;
    const yAxis = this.isLog ? logAxis(spec.yLabel, spec.yKind, logRange(values, 1.03))
      : linearAxis(spec.yLabel, spec.yKind, values.length === 0 ? [0, 1] : [spec.fromZero ? 0 : least - room, most + room]);
    const unit = this.axis === "time" ? "time, s" : this.axis;
    this.plane = new Plane(width, kHeight, 14, linearAxis(unit, kXAxes.find(([name]) => name === this.axis)![1], this.range), yAxis);
    const lines = spec.lines.flatMap((line, place) => this.lineNodes(line, shown[place]!));
    return { height: kHeight, nodes: this.plane.nodes([...lines, ...spec.events.map((event) => this.eventNode(event))]) };
  }

  private lineNodes({ run, look, xs, ys }: Line, points: readonly number[]): SVGElement[] {
    const placed = points.filter((point) => !this.isLog || ys[point]! > 0).map((point): [number, number] => [this.plane.x(xs[this.axis][point]!), this.plane.y(ys[point]!)]);
    const line = lineNode(placed, run, look !== "line");
    if (look === "pale") line.setAttribute("stroke-opacity", "0.35");
    const marks = look === "marks" ? placed.map(([x, y]) => markNode("hollow", run, x, y, kRadius)) : [];
    return [svg("g", { "data-series": run }, line, ...marks)];
  }

  private eventNode(event: RunEvent): SVGElement {
    const x = this.plane.x(event.xs[this.axis]), y = this.eventY(event);
    const node = event.isBad ? markNode("oom", event.run, x, y, kRadius + 1) : svg("line", { x1: x, x2: x, y1: y - 7, y2: y, stroke: `var(--series-${(event.run % 8) + 1})`, "stroke-width": 2 });
    return svg("g", { "data-series": event.run, class: event.isBad ? "event bad" : "event" }, node);
  }

  private eventY({ y, isBad }: RunEvent): number {
    if (!isBad) return this.plane.bottom;
    return y === null || (this.isLog && y <= 0) ? this.plane.top + 4 : Math.max(this.plane.top + 4, this.plane.y(y));
  }

  private listen(): void {
    const { plot } = this.chart;
    onMark(this.chart, () => this.plane, true, ([x, toX]) => this.view(this.plane.xValue(x), this.plane.xValue(toX)));
    plot.addEventListener("pointermove", (event) => this.show(this.plane.xValue(event.clientX - plot.getBoundingClientRect().left)));
    plot.addEventListener("dblclick", () => this.view(...this.everything()));
    plot.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointerleave", "blur"]) plot.addEventListener(name, () => this.chart.hideTip());
  }

  // What every line has at the point that is next to an x.
  private show(x: number): void {
    const near = this.spec.lines.flatMap((line) => {
      const xs = line.xs[this.axis], after = lowerBound(xs, x);
      const point = after > 0 && (after === xs.length || x - xs[after - 1]! < xs[after]! - x) ? after - 1 : after;
      return [{ line, point, distance: Math.abs(xs[point]! - x) }];
    });
    const least = Math.min(...near.map(({ distance }) => distance));
    const pixel = (this.range[1] - this.range[0]) / (this.plane.right - this.plane.left);
    const shown = near.filter(({ distance }) => distance <= Math.max(least, 3 * pixel));
    if (shown.length === 0) return;
    const { line: first, point } = shown.find(({ distance }) => distance === least)!, at = first.xs[this.axis][point]!;
    this.current = at;
    const lines = shown.map(({ line, point: place }) => `${line.label}: ${formatOne(this.spec.yKind, line.ys[place]!)}`);
    const events = this.spec.events.filter(({ xs }) => Math.abs(xs[this.axis] - at) <= 3 * pixel).map(({ run, text }) => `${this.spec.runs[run]!}: ${text}`);
    this.chart.showTip([`${this.axis} ${formatOne(this.axis === "step" ? "count" : "number", at)}`, ...lines, ...events], this.plane.x(at), this.plane.y(first.ys[point]!));
  }

  private key(event: KeyboardEvent): void {
    const [from, to] = this.range, middle = this.current ?? (from + to) / 2;
    const zoom = (factor: number) => this.view(middle - (middle - from) * factor, middle + (to - middle) * factor);
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const all = [...new Set(this.spec.lines.flatMap(({ xs }) => xs[this.axis]))].sort((a, b) => a - b);
      const place = lowerBound(all, middle) + (this.current === null ? 0 : event.key === "ArrowRight" ? 1 : -1);
      this.show(all[Math.max(0, Math.min(all.length - 1, place))]!);
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "Escape") this.view(...this.everything());
    else return;
    event.preventDefault();
  }
}
