// Stacked horizontal bars: what makes up the total of each row. The figures stand beside them as a table.
import { el } from "./dom";
import { formatOne, type Kind } from "./format";
import { onThemeChange, seriesColour } from "./theme";
import { tableBehind } from "./table";

export interface BarRow {
  label: string;
  parts: (number | null)[];  // a value a part; null: the row has no such part
}

export function stackedBars(title: string, kind: Kind, parts: readonly string[], rows: readonly BarRow[]): HTMLElement {
  const totals = rows.map((row) => row.parts.reduce<number>((sum, part) => sum + (part ?? 0), 0));
  const longest = Math.max(...totals);
  const shown = parts.map((_, part) => part).filter((part) => rows.some((row) => (row.parts[part] ?? 0) > 0));
  const paints: (() => void)[] = [];
  const coloured = (attributes: { [name: string]: string }, part: number) => {
    const element = el("span", attributes);
    paints.push(() => { element.style.backgroundColor = seriesColour(part); });
    return element;
  };
  const lines = rows.map((row, place) => {
    const bar = el("div", { class: "bar", "aria-hidden": "true" });
    for (const part of shown) {
      const value = row.parts[part] ?? 0;
      if (value <= 0) continue;
      const segment = coloured({ title: `${parts[part]!}: ${formatOne(kind, value)}` }, part);
      segment.style.width = `${(100 * value) / longest}%`;
      bar.append(segment);
    }
    return el("div", { class: "bar-row" }, el("span", { class: "bar-label" }, row.label), bar,
      el("span", { class: "bar-total" }, formatOne(kind, totals[place]!)));
  });
  const legend = shown.map((part) => el("span", { class: "legend-entry" }, coloured({ class: "swatch" }, part), parts[part]!));
  const paintAll = () => paints.forEach((paint) => paint());
  onThemeChange(paintAll);
  paintAll();
  const columns = () => [
    { label: "row", kind: "text" as Kind, values: rows.map(({ label }) => label) },
    ...shown.map((part) => ({ label: parts[part]!, kind, values: rows.map((row) => row.parts[part] ?? null) })),
    { label: "total", kind, values: totals },
  ];
  return el("figure", { class: "chart" }, el("figcaption", {}, title), el("div", { class: "legend" }, ...legend),
    el("div", { class: "bars" }, ...lines), tableBehind("The figures of this chart", title, columns));
}
