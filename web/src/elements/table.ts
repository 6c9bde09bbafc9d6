// A table that each heading sorts; the arrow keys go from heading to heading. Numbers of a column share a unit, which the heading names, and the number of decimals.
import { el, oneTabStop } from "./dom";
import { formatNumber, type Kind, scaleOf, sixDigits } from "./format";

export type Value = string | number | boolean | null;

export interface Column {
  label: string;
  kind: Kind;
  values: Value[];  // a value a row
  indents?: number[];  // levels of a tree in this column
  isKey?: boolean;     // it says which row this is, as the first column always does
}

const kLongText = 48;    // characters; longer texts wrap
const kFewColumns = 6;   // in a table with more of them no text wraps: it would make rows high for a column out of sight
const kShownFirst = 40;  // longer tables are opened by a button

function headingText(column: Column, unit: string): string {
  return unit === "" || unit.startsWith("/") ? column.label + unit : `${column.label}, ${unit}`;
}

function compare(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// Row numbers in the order of a column; rows without a value come last in both directions.
export function sortedRows(values: readonly Value[], descending: boolean): number[] {
  const isMissing = (row: number) => values[row] === null || values[row] === "";
  return values.map((_, row) => row).sort((a, b) => {
    if (isMissing(a) || isMissing(b)) return Number(isMissing(a)) - Number(isMissing(b)) || a - b;
    return (descending ? -1 : 1) * compare(values[a]!, values[b]!) || a - b;
  });
}

function textsOf(column: Column): { texts: string[]; unit: string; isNumeric: boolean } {
  const numbers = column.values.filter((value) => typeof value === "number");
  const isNumeric = column.kind !== "text" && numbers.length > 0;
  const scale = scaleOf(column.kind, numbers);
  const texts = column.values.map((value) => {
    if (value === null || value === "") return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number" || !isNumeric) return String(value);
    return column.kind === "mixed" ? sixDigits(value) : formatNumber(value, scale);
  });
  return { texts, unit: isNumeric ? scale.unit : "", isNumeric };
}

const kMostOfKeys = 0.45;  // of the width of a table

// The leading key columns stay in view when a table is scrolled sideways: the first, and as many more as leave room.
function holdKeys(box: HTMLElement, table: HTMLTableElement, rows: readonly HTMLTableRowElement[], keys: number): void {
  const hold = () => {
    const widths = [...table.tHead!.rows[0]!.cells].slice(0, keys).map(({ offsetWidth }) => offsetWidth);
    let left = 0;
    const lefts = widths.map((width, place) => (left += width) <= kMostOfKeys * box.clientWidth || place === 0 ? left - width : null);
    for (const { cells } of [table.tHead!.rows[0]!, ...rows]) {
      lefts.forEach((from, place) => {
        cells[place]!.classList.toggle("key", from !== null);
        cells[place]!.style.left = from === null ? "" : `${from}px`;
      });
    }
  };
  new ResizeObserver(hold).observe(table);
}

// Paper does not scroll: a table that is wider is printed in parts, each with the key columns.
function splitForPrint(box: HTMLElement, table: HTMLTableElement, keys: number): void {
  let parts: HTMLTableElement[] = [];
  addEventListener("beforeprint", () => {
    if (table.offsetWidth <= box.clientWidth) return;
    const widths = [...table.tHead!.rows[0]!.cells].map((cell) => Math.ceil(cell.getBoundingClientRect().width));
    const room = box.clientWidth - widths.slice(0, keys).reduce((sum, width) => sum + width, 0);
    let part = 0, taken = 0;
    const partOf = widths.slice(keys).map((width) => {
      if (taken > 0 && taken + width > room) [part, taken] = [part + 1, 0];
      taken += width;
      return part;
    });
    parts = Array.from({ length: part + 1 }, (_, own) => {
      const copy = table.cloneNode(true) as HTMLTableElement;
      for (const { cells } of copy.rows) [...cells].slice(keys).forEach((cell, place) => { if (partOf[place] !== own) cell.remove(); });
      return copy;
    });
    table.hidden = true;
    box.append(...parts);
  });
  addEventListener("afterprint", () => {
    for (const part of parts) part.remove();
    [parts, table.hidden] = [[], false];
  });
}

// Where a row begins with words that name it, these are its heading for screen readers.
export function sortableTable(caption: string, columns: readonly Column[], shownFirst = kShownFirst): HTMLElement {
  const count = columns[0]?.values.length ?? 0;
  const written = columns.map(textsOf);
  const body = el("tbody");
  const isLong = (text: string) => text.length > kLongText && columns.length <= kFewColumns;
  const rows = Array.from({ length: count }, (_, row) => {
    const cells = written.map(({ texts, isNumeric }, place) => {
      const cell = el(place === 0 ? "th" : "td", { class: isNumeric ? "number" : isLong(texts[row]!) ? "long" : "words" }, texts[row]!);
      if (place === 0) cell.setAttribute("scope", "row");
      const indent = columns[place]!.indents?.[row] ?? 0;
      if (indent > 0) cell.style.paddingInlineStart = `${0.6 + 1.1 * indent}rem`;
      return cell;
    });
    return el("tr", {}, ...cells);
  });
  let order = rows.map((_, row) => row), isOpen = count <= shownFirst;
  const fill = () => body.replaceChildren(...(isOpen ? order : order.slice(0, shownFirst)).map((row) => rows[row]!));
  const headings = columns.map((column, place) => {
    const { unit, isNumeric } = written[place]!;
    const heading = el("th", { scope: "col", class: isNumeric ? "number" : "words" });
    const sort = () => {
      // Numbers begin with the largest, words with the first.
      const now = heading.getAttribute("aria-sort");
      const descending = now === null ? isNumeric : now === "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      order = sortedRows(column.values, descending);
      fill();
    };
    heading.append(el("button", { type: "button", click: sort }, headingText(column, unit)));
    return heading;
  });
  fill();
  const table = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...headings)), body);
  oneTabStop(table.tHead!, "button");
  const box = el("div", { class: "table-box" }, table);
  const firstOther = columns.findIndex(({ isKey }, place) => place > 0 && isKey !== true), keys = firstOther < 0 ? columns.length : firstOther;
  holdKeys(box, table, rows, keys);
  const more = el("button", { type: "button", class: "more" }, `Show all ${count} rows`);
  const open = () => { isOpen = true; fill(); more.remove(); };
  more.addEventListener("click", open);
  if (!isOpen) addEventListener("beforeprint", open);
  splitForPrint(box, table, keys);  // by the width of all rows
  return isOpen ? box : el("div", {}, box, more);
}

// A table behind a line that opens it: what a chart shows, as text.
export function tableBehind(summary: string, caption: string, columns: () => Column[]): HTMLElement {
  const details = el("details", {}, el("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(sortableTable(caption, columns()));
  });
  return details;
}
