// A chart of points, joined by lines or not, on logarithmic axes: sweeps and rooflines. Dragging zooms, a double click
// shows everything; the arrow keys go from point to point.
import { binaryTicks, logRange, logTicks, sweepTicks } from "./axes";
import { Chart, type Drawing, textNode } from "./chart";
import { svg } from "../elements/dom";
import type { Kind } from "../elements/format";
import { lineNode, markNode, type Shape } from "./marks";
import { kHalo, type Limit, logAxis, onMark, Plane } from "./plane";

export interface Mark {
  x: number;
  y: number | null;  // null: at the upper edge
  shape: Shape;
  size: number;      // of its area; 1 is usual
  lines: string[];   // what the pointer shows
}

export interface MarkSeries {
  label: string;
  isJoined: boolean;
  isPublished: boolean;
  style: number;     // of its colour, shape and dashes, the same for a series in every chart
  marks: Mark[];
}

export interface ScatterSpec {
  title: string;
  xLabel: string;
  xKind: Kind;
  xTicks: "swept" | "decades";
  yLabel: string;
  yKind: Kind;
  series: MarkSeries[];
  roofs: { label: string; points: [number, number][] }[];  // lines without marks
  limits: readonly Limit[];
}

const kHelp = "Drag to zoom, double click for everything; arrow keys go from point to point.";
const kHeight = 340;
const kRadius = 4;
const kUpperStep = 14;  // pixels between marks at the upper edge

interface Placed { mark: Mark; series: number; }

class Scatter {
  readonly chart: Chart;
  private readonly placed: Placed[] = [];
  private readonly upper = new Map<Mark, number>();  // how many marks of the same x are above one at the upper edge
  private readonly xs: number[];
  private xRange: [number, number];
  private yRange: [number, number];
  private plane!: Plane;
  private current = -1;

  constructor(private readonly spec: ScatterSpec) {
    spec.series.forEach(({ marks }, series) => marks.forEach((mark) => this.placed.push({ mark, series })));
    for (const { mark } of this.placed) {
      if (mark.y === null) this.upper.set(mark, [...this.upper.keys()].filter(({ x }) => x === mark.x).length);
    }
    this.placed.sort((a, b) => a.mark.x - b.mark.x || (a.mark.y ?? Infinity) - (b.mark.y ?? Infinity));
    this.xs = this.placed.map(({ mark }) => mark.x);
    [this.xRange, this.yRange] = this.everything();
    const legend = spec.series.map(({ label, style, isJoined, isPublished }) => ({
      label, swatch: [...(isJoined ? [lineNode([[0, 6], [22, 6]], style, isPublished)] : []), markNode(isPublished ? "hollow" : "dot", style, 11, 6, kRadius)],
    }));
    this.chart = new Chart({ title: spec.title, help: kHelp, legend, alternative: null, draw: (width) => this.draw(width) });
    this.chart.redraw();
    this.listen();
  }

  private everything(): [[number, number], [number, number]] {
    const roofs = this.spec.roofs.flatMap(({ points }) => points);
    return [logRange([...this.xs, ...roofs.map(([x]) => x)]),
      logRange([...this.placed.flatMap(({ mark }) => mark.y ?? []), ...roofs.map(([, y]) => y), ...this.spec.limits.map(({ value }) => value)], 1.5)];
  }

  private view([xRange, yRange]: [[number, number], [number, number]]): void {
    [this.xRange, this.yRange] = [xRange, yRange];
    this.chart.hideTip();
    this.chart.redraw();
  }

  private xTicks = ([min, max]: [number, number], most: number) => {
    const swept = this.spec.xTicks === "swept" ? sweepTicks(this.xs, most).filter((tick) => tick >= min && tick <= max) : [];
    return swept.length >= 2 ? swept : logTicks(min, max, most);
  };

  private position(mark: Mark): [number, number] {
    return [this.plane.x(mark.x), mark.y === null ? this.plane.top + 2 + kUpperStep * (this.upper.get(mark) ?? 0) : this.plane.y(mark.y)];
  }

  private draw(width: number): Drawing {
    const { spec } = this;
    const yTicks = spec.yKind === "bytes" ? ([min, max]: [number, number], most: number) => binaryTicks(min, max, most) : undefined;
    this.plane = new Plane(width, kHeight, 14, logAxis(spec.xLabel, spec.xKind, this.xRange, this.xTicks), logAxis(spec.yLabel, spec.yKind, this.yRange, yTicks));
    // Of marks in one place the first is the largest, so that each shows around the next.
    const series = spec.series.map(({ marks, isJoined, isPublished, style }, place) => {
      const wider = isJoined ? Math.min(2.4, 0.5 * (spec.series.length - 1 - place)) : 0;
      const known = marks.filter(({ shape }) => shape !== "oom").map((mark) => this.position(mark));
      return svg("g", { "data-series": place }, isJoined ? lineNode(known, style, isPublished) : null,
        ...marks.map((mark) => markNode(mark.shape, style, ...this.position(mark), kRadius * Math.sqrt(mark.size) + wider)));
    });
    // The name of a limit lies below the data.
    const nodes = this.plane.nodes([...this.plane.limitNodes(spec.limits, []), ...series, ...spec.roofs.flatMap((roof) => this.roofNodes(roof))]);
    return { height: kHeight, nodes };
  }

  private roofNodes({ label, points }: { label: string; points: [number, number][] }): SVGElement[] {
    const [[x, y], [toX, toY]] = points.map(([x, y]) => [this.plane.x(x), this.plane.y(y)] as const) as [readonly [number, number], readonly [number, number]];
    const angle = (180 / Math.PI) * Math.atan2(toY - y, toX - x);
    return [svg("line", { x1: x, y1: y, x2: toX, y2: toY, stroke: "var(--roof)", "stroke-width": 2 }),
      textNode(label, 0, -8, "middle", { transform: `translate(${x + 0.4 * (toX - x)} ${y + 0.4 * (toY - y)}) rotate(${angle})`, ...kHalo })];
  }

  private listen(): void {
    const { plot } = this.chart;
    onMark(this.chart, () => this.plane, false, ([x, toX], [y, toY]) => {
      const { xValue, yValue } = this.plane;
      this.view([[xValue(x), xValue(toX)], [yValue(toY), yValue(y)]]);
    });
    plot.addEventListener("pointermove", (event) => this.showNearest(event.clientX - plot.getBoundingClientRect().left, event.clientY - plot.getBoundingClientRect().top));
    plot.addEventListener("dblclick", () => this.view(this.everything()));
    plot.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointerleave", "blur"]) plot.addEventListener(name, () => this.chart.hideTip());
  }

  private showNearest(x: number, y: number): void {
    let best = -1, least = 30 ** 2;
    this.placed.forEach(({ mark }, place) => {
      const [px, py] = this.position(mark);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [place, distance];
    });
    if (best >= 0) this.show(best);
    else this.chart.hideTip();
  }

  private show(place: number): void {
    this.current = place;
    const { mark, series } = this.placed[place]!;
    const { label } = this.spec.series[series]!;
    this.chart.showTip([...(label === "" ? [] : [label]), ...mark.lines], ...this.position(mark));
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const count = this.placed.length;
    if (event.key === "Escape") this.view(this.everything());
    else if (step === undefined || count === 0) return;
    else this.show(this.current < 0 ? (step > 0 ? 0 : count - 1) : (this.current + step + count) % count);
    event.preventDefault();
  }
}

export function scatter(spec: ScatterSpec): HTMLElement {
  return new Scatter(spec).chart.root;
}
