// Attention as a grid: a row for each shape, a column for each variant; darker is more.
import { type JsonObject, numberAt } from "../records/data";
import { el, freshId } from "../elements/dom";
import { measures } from "../records/fields";
import { formatNumber, scaleOf } from "../elements/format";
import { type Experiment, keyOf, labelOf, statusOf } from "../records/grouping";

const kMetrics = ["forward_ms.median", "backward_ms.median", "memory_bytes.before_backward", "memory_bytes.peak_allocated"];
const kTitles: { [path: string]: string } = { "forward_ms.median": "forward", "backward_ms.median": "backward" };

// 0 for the least, 1 for the most, by the logarithm.
export function intensity(value: number, least: number, most: number): number {
  return most > least ? Math.log(value / least) / Math.log(most / least) : 0;
}

function gridTable(experiment: Experiment, path: string): HTMLElement {
  const { records } = experiment;
  const field = measures.find((each) => each.path === path)!;
  const variants = [...new Set(records.map((record) => keyOf(record, "attention")))];
  const others = experiment.varying.filter((each) => each.path !== "attention");
  const rows = new Map<string, Map<string, JsonObject>>();
  for (const record of records) {
    const label = labelOf(record, others);
    if (!rows.has(label)) rows.set(label, new Map());
    rows.get(label)!.set(keyOf(record, "attention"), record);
  }
  const values = records.map((record) => numberAt(record, path)).filter((value) => value !== null && value > 0) as number[];
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const scale = scaleOf(field.kind, values);
  const cellOf = (record: JsonObject | undefined) => {
    if (record === undefined) return el("td", { class: "number" }, "–");
    const status = statusOf(record);
    const value = numberAt(record, path);
    const cell = el("td", { class: `number heat${status === "ok" ? "" : " bad"}` }, status === "ok" && value !== null ? formatNumber(value, scale) : status);
    if (status === "ok" && value !== null && value > 0) cell.style.setProperty("--heat", `${Math.round(55 * intensity(value, least, most))}%`);
    return cell;
  };
  const caption = `${experiment.title}: ${kTitles[path] ?? field.label}, ${scale.unit}; darker is more, on a logarithmic scale`;
  return el("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": caption }, el("table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "key" }, others.map(({ label }) => label).join(", ")),
      ...variants.map((variant) => el("th", { scope: "col", class: "number" }, variant)))),
    el("tbody", {}, ...[...rows].map(([label, of]) =>
      el("tr", {}, el("th", { scope: "row", class: "key" }, label), ...variants.map((variant) => cellOf(of.get(variant))))))));
}

export function attentionGrid(experiment: Experiment): HTMLElement | null {
  if (!experiment.varying.some(({ path }) => path === "attention")) return null;
  const paths = kMetrics.filter((path) => experiment.records.some((record) => numberAt(record, path) !== null));
  if (paths.length === 0) return null;
  const holder = el("div", {});
  const id = freshId("metric");
  const select = el("select", { id }, ...paths.map((path) =>
    el("option", { value: path }, kTitles[path] ?? measures.find((each) => each.path === path)!.label)));
  const show = () => holder.replaceChildren(gridTable(experiment, select.value));
  select.addEventListener("change", show);
  show();
  return el("div", { class: "grid" }, el("p", {}, el("label", { for: id }, "Variants side by side, by "), select), holder);
}
