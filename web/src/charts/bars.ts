// Horizontal bars, a row each, on one axis: what makes up the total of a row, or how its samples spread. The figures stand
// behind the chart as a table.
import { Chart, type Drawing, type LegendEntry, textNode, textWidth, wrapped } from "./chart";
import { svg } from "../elements/dom";
import { formatOne, type Kind } from "../elements/format";
import { squareNode } from "./marks";
import { type Axis, headingOf, type Limit, limitLine, linearAxis, reachOf, shareOf, textsOf } from "./plane";
import { tableBehind } from "../elements/table";
import { seriesColour } from "../elements/theme";

export interface BarRow {
  label: string;
  parts: (number | null)[];  // a value a part; null: the row has no such part
}

interface RowsSpec {
  title: string;
  axis: Axis;
  legend: readonly LegendEntry[];
  rows: { label: string; total: string; draw: (x: (value: number) => number, y: number, height: number) => SVGElement[] }[];
  within?: readonly Limit[];
  beyond?: readonly Limit[];
  alternative: HTMLElement;
}

const kBar = 16, kLine = 15;
const kWide = 560;  // pixels, from which on labels stand beside the bars and not above them

export function rowChart({ title, axis, legend, rows, within = [], beyond = [], alternative }: RowsSpec): HTMLElement {
  const draw = (width: number): Drawing => {
    const isWide = width >= kWide, most = isWide ? 0.38 * width : width;
    const labels = rows.map(({ label }) => wrapped(label, most));
    const left = isWide ? 12 + Math.min(most, Math.max(...labels.flat().map((line) => textWidth(line)))) : 0;
    const right = width - 12 - Math.max(...rows.map(({ total }) => textWidth(total)));
    const x = (value: number) => left + shareOf(axis, value) * (right - left);
    const nodes: SVGElement[] = [];
    let y = (within.length + beyond.length) * kLine;
    const top = y;
    rows.forEach((row, place) => {
      const lines = labels[place]!, barAt = y + (isWide ? Math.max(0, (lines.length * kLine - kBar) / 2) : lines.length * kLine + 1);
      lines.forEach((line, number) => nodes.push(textNode(line, 0, y + number * kLine + 12)));
      nodes.push(...row.draw(x, barAt, kBar), textNode(row.total, width - 2, barAt + 12, "end"));
      y = Math.max(barAt + kBar, y + lines.length * kLine) + 5;
    });
    const ticks = axis.ticks(axis.range, Math.max(3, Math.floor((right - left) / 80))).filter((tick) => tick <= axis.range[1]), texts = textsOf(axis, ticks);
    const grid = ticks.flatMap((tick, place) => [svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: y, stroke: "var(--grid)" }), textNode(texts[place]!, x(tick), y + 13, place === 0 ? "start" : "middle")]);
    const limits = [...within.map(({ label, value }) => [label, x(value)] as const), ...beyond.map(({ label }) => [`${label}, beyond this axis →`, right] as const)]
      .flatMap(([label, at], place) => [limitLine({ x1: at, x2: at, y1: top, y2: y }), textNode(label, at, 11 + kLine * place, "end")]);
    return { height: y + 36, nodes: [...grid, ...nodes, ...limits, textNode(headingOf(axis, ticks), left, y + 31)] };
  };
  const chart = new Chart({ title, help: "", legend, alternative, draw });
  chart.redraw();
  return chart.root;
}

export function stackedBars(title: string, kind: Kind, parts: readonly string[], rows: readonly BarRow[], limits: readonly Limit[] = []): HTMLElement {
  const totals = rows.map((row) => row.parts.reduce<number>((sum, part) => sum + (part ?? 0), 0));
  const { end, within, beyond } = reachOf(Math.max(...totals), limits);
  const shown = parts.map((_, part) => part).filter((part) => rows.some((row) => (row.parts[part] ?? 0) > 0));
  const columns = () => [
    { label: "row", kind: "text" as Kind, values: rows.map(({ label }) => label) },
    ...shown.map((part) => ({ label: parts[part]!, kind, values: rows.map((row) => row.parts[part] ?? null) })),
    { label: "total", kind, values: totals },
  ];
  return rowChart({
    title, axis: linearAxis(kind === "bytes" ? "memory" : "time", kind, [0, end || 1]), within, beyond, alternative: tableBehind("The figures of this chart", title, columns),
    legend: shown.map((part) => ({ label: parts[part]!, swatch: [squareNode(seriesColour(part))] })),
    rows: rows.map(({ label, parts: values }, place) => ({
      label, total: formatOne(kind, totals[place]!),
      draw: (x, y, height) => {
        let sum = 0;
        return shown.flatMap((part, series) => {
          const value = values[part] ?? 0, from = sum;
          if (value <= 0) return [];
          sum += value;
          return [svg("rect", { "data-series": series, x: x(from), y, width: x(sum) - x(from), height, fill: seriesColour(part), stroke: "var(--page)", "stroke-width": 0.8 },
            svg("title", {}, `${parts[part]!}: ${formatOne(kind, value)}`))];
        });
      },
    })),
  });
}
