// A chart of points, joined by lines or not, on logarithmic axes: sweeps and rooflines. Dragging zooms, a double click
// shows everything; the arrow keys go from point to point.
import uPlot from "uplot";
import { binaryTicks, logRange, logTicks, sweepTicks, tickTexts } from "./axes";
import { type ChartFrame, chartFrame, hideTip, showTip } from "./frame";
import { formatOne, type Kind } from "./format";
import { drawLine, drawMark, type Shape } from "./marks";
import { colour, onThemeChange, seriesColour } from "./theme";

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
  isDashed: boolean;
  style: number;     // of its colour and shape, the same for a series in every chart
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
  alternative: HTMLElement | null;
}

const kHelp = "Drag to zoom; a double click or Escape shows everything; arrow keys go from point to point.";
const kHeight = 340;
const kRadius = 4.5;
const kUpperStep = 14;  // pixels between marks at the upper edge

// A logarithmic axis may go through several units: 64 MiB, 1 GiB.
function hasUnitAtTicks(kind: Kind): boolean {
  return kind === "amount" || kind === "bytes";
}

interface Placed { mark: Mark; series: number; }

class Scatter {
  private readonly hidden = new Set<number>();
  private readonly frame: ChartFrame;
  private readonly placed: Placed[] = [];
  private readonly upper = new Map<Mark, number>();  // how many marks of the same x are above one at the upper edge
  private readonly chart: uPlot;
  private current = -1;

  constructor(private readonly spec: ScatterSpec) {
    const legend = spec.series.map(({ label, style }, place) => ({
      label, colour: () => seriesColour(style),
      toggle: (isShown: boolean) => {
        if (isShown) this.hidden.delete(place);
        else this.hidden.add(place);
        this.chart.redraw();
      },
    }));
    this.frame = chartFrame(spec.title, kHelp, legend, spec.alternative);
    spec.series.forEach(({ marks }, series) => marks.forEach((mark) => this.placed.push({ mark, series })));
    for (const { mark } of this.placed) {
      if (mark.y === null) this.upper.set(mark, [...this.upper.keys()].filter(({ x }) => x === mark.x).length);
    }
    this.placed.sort((a, b) => a.mark.x - b.mark.x || (a.mark.y ?? Infinity) - (b.mark.y ?? Infinity));
    this.chart = new uPlot(this.options(), this.bounds(), this.frame.plot);
    this.listen();
  }

  get root(): HTMLElement {
    return this.frame.root;
  }

  // uPlot gets the corners of the data; draw() makes the rest.
  private bounds(): uPlot.AlignedData {
    const roofs = this.spec.roofs.flatMap(({ points }) => points);
    const [left, right] = logRange([...this.placed.map(({ mark }) => mark.x), ...roofs.map(([x]) => x)]);
    const [low, high] = logRange([...this.placed.flatMap(({ mark }) => mark.y ?? []), ...roofs.map(([, y]) => y)], 1.5);
    return [[left, right], [low, high]];
  }

  private options(): uPlot.Options {
    const { spec } = this;
    const xs = this.placed.map(({ mark }) => mark.x);
    const inRange = (ticks: number[], min: number, max: number) => ticks.filter((tick) => tick >= min && tick <= max);
    const xSplits = (_: uPlot, __: number, min: number, max: number) => {
      const most = Math.max(3, Math.floor(this.width() / 70));
      const swept = spec.xTicks === "swept" ? inRange(sweepTicks(xs, most), min, max) : [];
      return swept.length >= 2 ? swept : logTicks(min, max, most);
    };
    const axis = (label: string, kind: Kind): uPlot.Axis => ({
      label, labelSize: 22, labelFont: "13px system-ui, sans-serif", font: "12px system-ui, sans-serif",
      stroke: () => colour("text"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { stroke: () => colour("grid"), width: 1 },
      values: (_, splits) => (hasUnitAtTicks(kind) ? splits.map((split) => formatOne(kind, split)) : tickTexts(kind, splits).texts),
      filter: (_, splits) => splits,
    });
    return {
      width: this.width(), height: kHeight, legend: { show: false },
      scales: { x: { time: false, distr: 3, range: (_, min, max) => [min, max] }, y: { distr: 3, range: (_, min, max) => [min, max] } },
      axes: [
        { ...axis(spec.xLabel, spec.xKind), size: 28, splits: xSplits },
        { ...axis(this.yHeading(), spec.yKind), size: spec.yKind === "bytes" ? 78 : 62, splits: (_, __, min, max) => this.yTicks(min, max) },
      ],
      series: [{}, { show: true, stroke: "transparent", points: { show: false }, paths: () => null }],
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false }, x: false, y: false },
      hooks: { draw: [() => this.draw()] },
      padding: [12, 16, 0, 0],
    };
  }

  private yTicks(min: number, max: number): number[] {
    return this.spec.yKind === "bytes" ? binaryTicks(min, max, 8) : logTicks(min, max, 8);
  }

  // The unit of the largest value, which the ticks then have too, or none.
  private yHeading(): string {
    if (hasUnitAtTicks(this.spec.yKind)) return this.spec.yLabel;
    const [, ys] = this.bounds();
    const { unit } = tickTexts(this.spec.yKind, this.yTicks(ys![0]!, ys![1]!));
    return unit === "" ? this.spec.yLabel : `${this.spec.yLabel}, ${unit}`;
  }

  private width(): number {
    return Math.max(240, this.frame.plot.clientWidth);
  }

  // In pixels of the canvas, or of the page.
  private position(mark: Mark, isCanvas: boolean): [number, number] {
    const x = this.chart.valToPos(mark.x, "x", isCanvas);
    const ratio = isCanvas ? devicePixelRatio : 1;
    if (mark.y !== null) return [x, this.chart.valToPos(mark.y, "y", isCanvas)];
    return [x, (isCanvas ? this.chart.bbox.top : 0) + (10 + kUpperStep * (this.upper.get(mark) ?? 0)) * ratio];
  }

  private draw(): void {
    const { ctx, bbox } = this.chart;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 6 * ratio, bbox.width + 6 * ratio, bbox.height + 6 * ratio);
    ctx.clip();
    this.spec.series.forEach(({ marks, isJoined, isDashed, style }, series) => {
      if (this.hidden.has(series)) return;
      const stroke = seriesColour(style);
      const known = marks.filter(({ shape }) => shape !== "oom").map((mark) => this.position(mark, true));
      ctx.setLineDash(isDashed ? [6 * ratio, 4 * ratio] : []);
      if (isJoined) drawLine(ctx, known, stroke, 1.5 * ratio);
      ctx.setLineDash([]);
      for (const mark of marks) {
        const [x, y] = this.position(mark, true);
        drawMark(ctx, mark.shape, style, x, y, kRadius * Math.sqrt(mark.size) * ratio, stroke);
      }
    });
    for (const roof of this.spec.roofs) this.drawRoof(roof);
    ctx.restore();
  }

  private drawRoof({ label, points }: { label: string; points: [number, number][] }): void {
    const { ctx } = this.chart;
    const ratio = devicePixelRatio;
    const places = points.map(([x, y]): [number, number] => [this.chart.valToPos(x, "x", true), this.chart.valToPos(y, "y", true)]);
    drawLine(ctx, places, colour("roof"), 2 * ratio);
    const [left, right] = [places[0]!, places[places.length - 1]!];
    ctx.save();
    ctx.fillStyle = colour("text");
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.translate(left[0] + 0.4 * (right[0] - left[0]), left[1] + 0.4 * (right[1] - left[1]));
    ctx.rotate(Math.atan2(right[1] - left[1], right[0] - left[0]));
    ctx.textAlign = "center";
    ctx.strokeStyle = colour("page");
    ctx.lineWidth = 4 * ratio;
    ctx.lineJoin = "round";
    ctx.strokeText(label, 0, -8 * ratio);
    ctx.fillText(label, 0, -8 * ratio);
    ctx.restore();
  }

  private listen(): void {
    const over = this.chart.over;
    over.addEventListener("mousemove", (event) => this.showNearest(event.offsetX, event.offsetY));
    over.addEventListener("mouseleave", () => hideTip(this.frame));
    this.frame.plot.addEventListener("keydown", (event) => this.key(event));
    this.frame.plot.addEventListener("blur", () => hideTip(this.frame));
    const draw = () => this.chart.setSize({ width: this.width(), height: kHeight });
    onThemeChange(draw);
    new ResizeObserver(draw).observe(this.frame.plot);
  }

  private showNearest(x: number, y: number): void {
    let best = -1, least = 30 ** 2;
    this.placed.forEach(({ mark, series }, place) => {
      if (this.hidden.has(series)) return;
      const [px, py] = this.position(mark, false);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [place, distance];
    });
    if (best >= 0) this.show(best);
    else hideTip(this.frame);
  }

  private show(place: number): void {
    this.current = place;
    const { mark, series } = this.placed[place]!;
    const [x, y] = this.position(mark, false);
    const label = this.spec.series[series]!.label;
    const { offsetLeft, offsetTop } = this.chart.over;
    showTip(this.frame, [...(label === "" ? [] : [label]), ...mark.lines], x + offsetLeft, y + offsetTop);
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.chart.setData(this.bounds());
      hideTip(this.frame);
    } else if (step === undefined || this.placed.length === 0) {
      return;
    } else {
      const visible = this.placed.map((_, place) => place).filter((place) => !this.hidden.has(this.placed[place]!.series));
      if (visible.length === 0) return;
      const now = visible.indexOf(this.current);
      this.show(visible[(now + step + visible.length) % visible.length]!);
    }
    event.preventDefault();
  }
}

export function scatter(spec: ScatterSpec): HTMLElement {
  return new Scatter(spec).root;
}
