// Allocated memory over time, stacked by category, with reserved memory and the phases. However long it is, it is
// drawn from a few points a pixel, taken again whenever the view changes.
import { Chart, type Drawing, textNode, textWidth } from "./chart";
import type { TimelineColumns } from "../records/data";
import { el, freshId, svg } from "../elements/dom";
import { keepExtremes, lowerBound } from "./downsample";
import { categories, phases } from "../records/fields";
import { formatOne } from "../elements/format";
import { type Formulas, type Levels, levelsOf } from "../records/levels";
import { squareNode } from "./marks";
import { type Limit, linearAxis, onMark, Plane, reachOf } from "./plane";
import { type Column, tableBehind } from "../elements/table";
import { seriesColour } from "../elements/theme";

const kHeight = 380;
const kPhaseHeight = 17;
const kHelp = "Drag, + or − to zoom, double click or Escape for everything; arrow keys go from event to event.";

const phaseColour = (phase: string) => `var(--phase-${phases.indexOf(phase) + 1})`;

type AxisName = "time" | "events";

class Timeline {
  readonly chart: Chart;
  private readonly levels: Levels;
  private readonly allocated: Float64Array;
  private readonly highest: number;
  private readonly phases: string[];
  private plane!: Plane;
  private axis: AxisName;
  private points: number[] = [];  // the events that are drawn
  private range: [number, number];
  private current = -1;

  constructor(title: string, private readonly columns: TimelineColumns, private readonly formulas: Formulas, private readonly limits: readonly Limit[]) {
    this.levels = levelsOf(columns);
    this.allocated = this.levels.stacks[categories.length - 1]!;
    this.highest = [this.levels.reserved, this.allocated].reduce((most, values) => values.reduce((a, b) => Math.max(a, b), most), 1);
    this.axis = this.levels.hasTimes ? "time" : "events";
    this.range = this.everything();
    this.phases = phases.filter((phase) => this.levels.stretches.some((each) => each.phase === phase));
    const legend = [...categories.map((category, place) => ({ label: category.replaceAll("_", " "), swatch: [squareNode(seriesColour(place))] })),
      { label: "reserved", swatch: [svg("line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: "var(--roof)", "stroke-width": 2 })] },
      ...this.phases.map((phase) => ({ label: phase, swatch: [squareNode(phaseColour(phase))] }))];
    this.chart = new Chart({ title, help: kHelp, legend, controls: this.levels.hasTimes ? this.axisChoice() : null, alternative: this.peaksTable(), draw: (width) => this.draw(width) });
    this.chart.redraw();
    this.listen();
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
      this.view(...this.everything());
    });
    return el("p", {}, el("label", { for: id }, "The axis is "), select);
  }

  private view(from: number, to: number): void {
    const [first, last] = this.everything();
    const least = (last - first) * 1e-7;
    this.range = [Math.max(first, from), Math.min(last, Math.max(to, from + least))];
    this.chart.hideTip();
    this.chart.redraw();
  }

  private draw(width: number): Drawing {
    const { end, within, beyond } = reachOf(this.highest, this.limits);
    const xAxis = this.axis === "time" ? linearAxis("time", "ms", this.range) : linearAxis("event", "count", this.range);
    this.plane = new Plane(width, kHeight, kPhaseHeight + 6, xAxis, linearAxis("memory", "bytes", [0, end]));
    // The drawn events of the view, and one at each side of it.
    const first = Math.max(0, lowerBound(this.xs, this.range[0]) - 1), past = Math.min(this.xs.length, lowerBound(this.xs, this.range[1]) + 1);
    this.points = keepExtremes(this.xs, this.allocated, first, past, width);
    // From the largest sum to the smallest, so that each covers the one before it.
    const areas = this.levels.stacks.map((values, place) => svg("path", { "data-series": place, d: `${this.steps(values)}V${this.plane.bottom}H${this.x(this.points[0]!)}Z`, fill: seriesColour(place) })).reverse();
    const reserved = svg("path", { "data-series": categories.length, d: this.steps(this.levels.reserved), fill: "none", stroke: "var(--roof)", "stroke-width": 1.5 });
    return { height: kHeight, nodes: this.plane.nodes([...areas, reserved, ...this.phaseNodes(), ...this.plane.limitNodes(within, beyond)], kPhaseHeight + 4) };
  }

  private x(event: number): string {
    return this.plane.x(this.xs[event]!).toFixed(1);
  }

  private steps(values: Float64Array): string {
    let path = "", level = "";
    for (const event of this.points) {
      const next = this.plane.y(values[event]!).toFixed(1);
      if (next === level) continue;
      path += path === "" ? `M${this.x(event)},${next}` : `H${this.x(event)}V${next}`;
      level = next;
    }
    return `${path}H${this.x(this.points[this.points.length - 1]!)}`;
  }

  private phaseNodes(): SVGElement[] {
    const { left: least, right: most, top } = this.plane;
    return this.levels.stretches.flatMap(({ phase, iteration, begin, end }, place) => {
      if (!this.phases.includes(phase)) return [];
      // After the last phase of an iteration the host waits.
      const ends = this.levels.stretches[place + 1]?.iteration === iteration ? end : end - 1;
      const left = Math.max(least, this.plane.x(this.xs[begin]!)), right = Math.min(most, this.plane.x(this.xs[ends]!));
      if (right - left < 1.5) return [];
      const y = top - kPhaseHeight - 3, series = categories.length + 1 + this.phases.indexOf(phase);
      const block = svg("rect", { "data-series": series, x: left, y, width: right - left, height: kPhaseHeight, fill: phaseColour(phase) });
      return textWidth(phase) + 6 < right - left ? [block, textNode(phase, (left + right) / 2, y + 13, "middle")] : [block];
    });
  }

  private listen(): void {
    const { plot } = this.chart;
    onMark(this.chart, () => this.plane, true, ([x, toX]) => this.view(this.plane.xValue(x), this.plane.xValue(toX)));
    plot.addEventListener("pointermove", (event) => this.show(this.eventNear(event.clientX - plot.getBoundingClientRect().left)));
    plot.addEventListener("dblclick", () => this.view(...this.everything()));
    plot.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointerleave", "blur"]) plot.addEventListener(name, () => this.chart.hideTip());
  }

  // Of the events within two pixels the largest request, otherwise the last event before them.
  private eventNear(x: number): number {
    const begin = lowerBound(this.xs, this.plane.xValue(x - 2)), end = lowerBound(this.xs, this.plane.xValue(x + 2));
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
    this.chart.showTip(this.linesOf(event), this.plane.x(this.xs[event]!), this.plane.y(this.columns.allocated_bytes[event]!));
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

export function timeline(title: string, columns: TimelineColumns, formulas: Formulas, limits: readonly Limit[]): HTMLElement {
  return new Timeline(title, columns, formulas, limits).chart.root;
}
