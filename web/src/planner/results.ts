// What a plan says: the verdict, its figures, the peak by category, and the cards that hold it.
import { type BarRow, stackedBars } from "../charts/bars";
import { type JsonObject, numberAt, textAt } from "../records/data";
import { el } from "../elements/dom";
import { categories } from "../records/fields";
import { formatOne, type Kind } from "../elements/format";
import { limitsOf } from "../charts/plane";
import { type Column, sortableTable } from "../elements/table";

const kReserved = "memory_bytes.peak_reserved";

const words = (name: string) => name.replaceAll("_", " ");
const written = (record: JsonObject, path: string, kind: Kind) => {
  const value = numberAt(record, path);
  return value === null ? "" : formatOne(kind, value);
};

// "batch 4, context 2048"
const shapeOf = (record: JsonObject) => [textAt(record, "model.name"), textAt(record, "mode"), textAt(record, "dtype"), `batch ${numberAt(record, "batch") ?? 0}`, `context ${numberAt(record, "context") ?? 0}`].join(", ");

export function verdictOf(record: JsonObject): HTMLElement {
  const status = textAt(record, "status");
  if (status !== "ok") return el("p", { class: "verdict-line bad" }, textAt(record, "error.message"));
  const room = numberAt(record, "room_bytes") ?? 0, card = textAt(record, "card");
  const text = record["fits"] === true ? `Fits on ${card}, with ${formatOne("bytes", room)} left` : `Does not fit on ${card}: ${formatOne("bytes", -room)} too much`;
  return el("p", { class: `verdict-line ${record["fits"] === true ? "good" : "bad"}` }, text, ". ", el("span", { class: "subject" }, shapeOf(record)));
}

export function figuresOf(record: JsonObject): HTMLElement | null {
  const low = written(record, "predicted_low_ms", "ms"), high = written(record, "predicted_high_ms", "ms");
  const capacity = numberAt(record, "capacity_bytes"), reserved = numberAt(record, kReserved);
  const all = [
    ["Peak reserved", written(record, kReserved, "bytes"), capacity !== null && reserved !== null ? `${formatOne("share", reserved / capacity)} of ${formatOne("bytes", capacity)}` : ""],
    ["Peak allocated", written(record, "memory_bytes.peak_allocated", "bytes"), textAt(record, "peak_phase") === "" ? "" : `in ${textAt(record, "peak_phase")}`],
    ["Predicted time", written(record, "predicted_ms", "ms"), low === "" ? "" : `${low} to ${high}`],
    ["Tokens per second", written(record, "predicted_tokens_per_second", "rate").replace("/s", ""), numberAt(record, "predicted_mfu") === null ? "" : `${written(record, "predicted_mfu", "share")} of the card's arithmetic`],
  ] as const;
  const shown = all.filter(([, value]) => value !== "");
  return shown.length === 0 ? null : el("dl", { class: "figures" }, ...shown.map(([label, value, note]) => el("div", { class: "figure" }, el("dt", {}, label), el("dd", { class: "value" }, value), el("dd", {}, note))));
}

export function peakChart(records: readonly JsonObject[]): HTMLElement | null {
  const known = records.filter((record) => textAt(record, "status") === "ok");
  if (known.length === 0) return null;
  const rows: BarRow[] = known.map((record) => ({ label: shapeOf(record), parts: categories.map((category) => numberAt(record, `peak_by_category.${category}`)) }));
  return stackedBars("Memory at the peak, by category", "bytes", categories.map(words), rows, limitsOf(known));
}

export function cardsTable(records: readonly JsonObject[]): HTMLElement {
  const texts = (label: string, valueOf: (record: JsonObject) => string, isKey = false): Column => ({ label, kind: "text", isKey, values: records.map(valueOf) });
  const numbers = (label: string, kind: Kind, path: string): Column => ({ label, kind, values: records.map((record) => numberAt(record, path)) });
  return sortableTable("What fits on which card", [
    texts("card", (record) => textAt(record, "card"), true),
    texts("fits", (record) => (textAt(record, "status") === "ok" ? (record["fits"] === true ? "yes" : "no") : textAt(record, "status"))),
    numbers("room", "bytes", "room_bytes"), numbers("peak reserved", "bytes", kReserved), numbers("capacity", "bytes", "capacity_bytes"), numbers("predicted", "ms", "predicted_ms"),
  ]);
}
