// Allocated memory over time, stacked by category, with reserved memory and the phases. However long it is, it is
// drawn from a few points a pixel, taken again whenever the view changes.
import uPlot from "uplot";
import { byteTicks, tickTexts } from "./axes";
import type { TimelineColumns } from "./data";
import { el, freshId } from "./dom";
import { keepExtremes, lowerBound } from "./downsample";
import { categories, phases } from "./fields";
import { formatOne } from "./format";
import { type ChartFrame, chartFrame, hideTip, showTip } from "./frame";
import { type Formulas, type Levels, levelsOf } from "./levels";
import { type Column, tableBehind } from "./table";
import { colour, onThemeChange, seriesColour } from "./theme";

const kHeight = 380;
const kPhaseHeight = 20;
const kHelp = "Drag, plus or minus zoom; a double click or Escape shows everything; arrow keys go from event to event.";

const phaseColour = (place: number) => colour(`phase-${place + 1}`);

type AxisName = "time" | "events";

class Timeline {
  private readonly levels: Levels;
  private readonly frame: ChartFrame;
  private readonly chart: uPlot;
  private axis: AxisName;
  private points: number[] = [];  // the events that are drawn
  private range: [number, number] = [0, 1];
  private current = -1;

  constructor(title: string, private readonly columns: TimelineColumns, private readonly formulas: Formulas) {
    this.levels = levelsOf(columns);
    this.axis = this.levels.hasTimes ? "time" : "events";
    const legend = categories.map((category, place) => ({ label: category.replaceAll("_", " "), colour: () => seriesColour(place) }));
    legend.push({ label: "reserved", colour: () => colour("roof") });
    phases.forEach((phase, place) => {
      if (this.levels.stretches.some((each) => each.phase === phase)) legend.push({ label: phase, colour: () => phaseColour(place) });
    });
    this.frame = chartFrame(title, kHelp, legend, this.peaksTable());
    if (this.levels.hasTimes) this.frame.root.insertBefore(this.axisChoice(), this.frame.root.children[1]!);
    this.range = this.everything();
    this.chart = new uPlot(this.options(), this.sample(), this.frame.plot);
    this.listen();
  }

  get root(): HTMLElement {
    return this.frame.root;
  }

  private get xs(): Float64Array {
    return this.levels.xs[this.axis];
  }

  private everything(): [number, number] {
    const first = this.xs[0]!, last = this.xs[this.xs.length - 1]!;
    return last > first ? [first, last] : [first, first + 1];
  }

  private axisChoice(): HTMLElement {
    const id = freshId("axis");
    const select = el("select", { id }, el("option", { value: "time" }, "time"), el("option", { value: "events" }, "events, one beside the other"));
    select.addEventListener("change", () => {
      this.axis = select.value === "events" ? "events" : "time";
      this.chart.axes[0]!.label = this.axisLabel();
      this.view(...this.everything());
    });
    return el("p", {}, el("label", { for: id }, "The axis is "), select);
  }

  private axisLabel(): string {
    return this.axis === "time" ? "time, ms" : "event";
  }

  private width(): number {
    return Math.max(240, this.frame.plot.clientWidth);
  }

  // The drawn events of the view, and one at each side of it.
  private sample(): uPlot.AlignedData {
    const begin = Math.max(0, lowerBound(this.xs, this.range[0]) - 1);
    const end = Math.min(this.xs.length, lowerBound(this.xs, this.range[1]) + 1);
    const allocated = this.levels.stacks[categories.length - 1]!;
    this.points = keepExtremes(this.xs, allocated, begin, end, this.width());
    const pick = (values: Float64Array) => this.points.map((event) => values[event]!);
    // From the largest sum to the smallest, so that each covers the one before it.
    return [pick(this.xs), ...this.levels.stacks.map(pick).reverse(), pick(this.levels.reserved)];
  }

  private highest(): number {
    let highest = 1;
    for (const values of [this.levels.reserved, this.levels.stacks[categories.length - 1]!]) for (const value of values) highest = Math.max(highest, value);
    return highest;
  }

  private options(): uPlot.Options {
    const highest = this.highest();
    const ticks = byteTicks(highest);
    const { unit } = tickTexts("bytes", ticks);
    const shared: uPlot.Axis = {
      font: "12px system-ui, sans-serif", labelFont: "13px system-ui, sans-serif", labelSize: 22,
      stroke: () => colour("text"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { stroke: () => colour("grid"), width: 1 },
    };
    const paths = uPlot.paths.stepped!({ align: 1 });
    const areas = categories.map((_, place): uPlot.Series => {
      const fill = () => seriesColour(categories.length - 1 - place);
      return { paths, fill, stroke: fill, width: 0.5, points: { show: false } };
    });
    return {
      width: this.width(), height: kHeight, legend: { show: false }, padding: [kPhaseHeight + 4, 16, 0, 0],
      scales: { x: { time: false, range: () => this.range }, y: { range: () => [0, highest * 1.02] } },
      axes: [{ ...shared, size: 28, label: this.axisLabel(), values: (_, splits) => splits.map((split) => String(split)) },
        { ...shared, label: `memory, ${unit}`, size: 62, splits: () => ticks, values: (_, splits) => tickTexts("bytes", splits).texts }],
      series: [{}, ...areas, { paths, stroke: () => colour("roof"), width: 1.5, points: { show: false } }],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false, bind: { dblclick: () => () => { this.view(...this.everything()); return null; } } },
      hooks: { draw: [() => this.drawPhases()], setSelect: [(chart) => this.select(chart)] },
    };
  }

  private select(chart: uPlot): void {
    const { left, width } = chart.select;
    if (width < 3) return;
    const range: [number, number] = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.view(...range);
  }

  private view(from: number, to: number): void {
    const [first, last] = this.everything();
    const least = (last - first) * 1e-7;
    this.range = [Math.max(first, from), Math.min(last, Math.max(to, from + least))];
    this.chart.setData(this.sample(), true);
    hideTip(this.frame);
  }

  private drawPhases(): void {
    const { ctx, bbox } = this.chart;
    const ratio = devicePixelRatio, height = kPhaseHeight * ratio, top = bbox.top - height;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, top, bbox.width, bbox.height + height);
    ctx.clip();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    this.levels.stretches.forEach(({ phase, iteration, begin, end }, place) => {
      if (!phases.includes(phase)) return;
      // After the last phase of an iteration the host waits.
      const ends = this.levels.stretches[place + 1]?.iteration === iteration ? end : end - 1;
      const left = Math.max(bbox.left, this.chart.valToPos(this.xs[begin]!, "x", true));
      const right = Math.min(bbox.left + bbox.width, this.chart.valToPos(this.xs[ends]!, "x", true));
      if (right - left < 1.5 * ratio) return;
      ctx.fillStyle = phaseColour(phases.indexOf(phase));
      ctx.fillRect(left, top, right - left, height - 3 * ratio);
      ctx.fillStyle = colour("text");
      if (ctx.measureText(phase).width + 6 * ratio < right - left) ctx.fillText(phase, (left + right) / 2, top + (height - 3 * ratio) / 2);
    });
    ctx.restore();
  }

  private listen(): void {
    const over = this.chart.over;
    over.addEventListener("mousemove", (event) => this.show(this.eventNear(event.offsetX)));
    over.addEventListener("mouseleave", () => hideTip(this.frame));
    this.frame.plot.addEventListener("keydown", (event) => this.key(event));
    this.frame.plot.addEventListener("blur", () => hideTip(this.frame));
    const draw = () => {
      this.chart.setSize({ width: this.width(), height: kHeight });
      this.chart.setData(this.sample(), true);
    };
    onThemeChange(draw);
    new ResizeObserver(draw).observe(this.frame.plot);
  }

  // Of the events within two pixels the largest request, otherwise the last event before them.
  private eventNear(offset: number): number {
    const begin = lowerBound(this.xs, this.chart.posToVal(offset - 2, "x")), end = lowerBound(this.xs, this.chart.posToVal(offset + 2, "x"));
    let best = Math.max(0, begin - 1);
    for (let event = begin; event < end; ++event) if (event === begin || this.columns.bytes[event]! > this.columns.bytes[best]!) best = event;
    return best;
  }

  private linesOf(event: number): string[] {
    const { action, category, op, module, phase, source } = this.columns.origins[this.columns.origin[event]!]!;
    const bytes = this.columns.bytes[event]!, iteration = this.columns.iteration[event]!;
    const formula = this.formulas.find(module, op, bytes);
    const when = [`event ${this.columns.event[event]!}`, this.levels.hasTimes ? formatOne("ms", this.columns.time_ms[event]!) : "", phase, iteration < 0 ? "" : `iteration ${iteration}`];
    return [
      `${action.replace("_", " ")} ${formatOne("bytes", bytes)}${formula === "" ? "" : ` = ${formula}`}, ${category.replaceAll("_", " ")}`,
      [op, module].filter((text) => text !== "").join(" of "), source, when.filter((text) => text !== "").join(", "),
      `allocated ${formatOne("bytes", this.columns.allocated_bytes[event]!)}, reserved ${formatOne("bytes", this.columns.reserved_bytes[event]!)}`,
    ].filter((line) => line !== "");
  }

  private show(event: number): void {
    this.current = event;
    const { offsetLeft, offsetTop } = this.chart.over;
    const y = this.chart.valToPos(this.columns.allocated_bytes[event]!, "y");
    showTip(this.frame, this.linesOf(event), this.chart.valToPos(this.xs[event]!, "x") + offsetLeft, y + offsetTop);
  }

  private key(event: KeyboardEvent): void {
    const [from, to] = this.range;
    const middle = this.current >= 0 ? this.xs[this.current]! : (from + to) / 2;
    const zoom = (factor: number) => this.view(middle - (middle - from) * factor, middle + (to - middle) * factor);
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const place = lowerBound(this.points, this.current) + (event.key === "ArrowRight" ? 1 : -1);
      this.show(this.points[Math.max(0, Math.min(this.points.length - 1, this.current < 0 ? 0 : place))]!);
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "Escape") this.view(...this.everything());
    else return;
    event.preventDefault();
  }

  private peaksTable(): HTMLElement {
    return tableBehind("Peaks of the phases as a table", "Peaks of the phases", () => {
      const named = this.levels.stretches.filter(({ phase, iteration }) => phase !== "" && iteration >= 0);
      const peaks = named.map(({ begin, end }) => {
        let peak = begin;
        for (let event = begin; event < end; ++event) if (this.columns.allocated_bytes[event]! > this.columns.allocated_bytes[peak]!) peak = event;
        return peak;
      });
      const columns: Column[] = [
        { label: "phase", kind: "text", values: named.map(({ phase }) => phase) },
        { label: "iteration", kind: "count", values: named.map(({ iteration }) => iteration) },
        { label: "event", kind: "count", values: peaks.map((event) => this.columns.event[event]!) },
        { label: "allocated", kind: "bytes", values: peaks.map((event) => this.columns.allocated_bytes[event]!) },
        { label: "reserved", kind: "bytes", values: peaks.map((event) => this.columns.reserved_bytes[event]!) },
      ];
      return columns;
    });
  }
}

export function timeline(title: string, columns: TimelineColumns, formulas: Formulas): HTMLElement {
  return new Timeline(title, columns, formulas).root;
}
