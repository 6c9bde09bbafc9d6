// Time by module as nested blocks: a block is as wide as its time, and stands below the module that contains it. A
// block is a button that makes it as wide as the view, unless it is too narrow for a pointer.
import { type Block, blocksOf } from "../records/blocks";
import { Chart, type Drawing, textNode, textWidth } from "./chart";
import type { JsonObject } from "../records/data";
import { el, oneTabStop, svg } from "../elements/dom";
import { formatOne } from "../elements/format";
import { seriesColour } from "../elements/theme";
import { tableBehind } from "../elements/table";

const kLeastShare = 0.002;  // narrower blocks are left out of the view
const kLeastButton = 24;    // pixels
const kBlock = 26, kRow = 28;

class Flame {
  readonly chart: Chart;
  private readonly back: HTMLButtonElement;
  private readonly total: number;
  private focus: Block | null = null;

  constructor(private readonly blocks: readonly Block[], alternative: HTMLElement) {
    this.total = blocks.filter(({ level }) => level === 0).reduce((sum, { time }) => sum + time, 0);
    this.back = el("button", { type: "button", hidden: true, click: () => this.zoom(null) }, "Show everything");
    this.chart = new Chart({ title: "Kernel time of a step by module: a block is as wide as its time", help: "", legend: [], alternative,
      controls: el("p", { class: "shared" }, "A click makes a block as wide as the view. ", this.back), draw: (width) => this.draw(width) });
    for (const name of ["role", "aria-label"]) this.chart.plot.removeAttribute(name);
    this.chart.plot.classList.add("flame");
    this.chart.redraw();
    this.chart.plot.addEventListener("click", ({ target }) => this.press(target as Element));
    this.chart.plot.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.press(event.target as Element); } });
  }

  private press(target: Element): void {
    const path = target.closest("[role=button]")?.getAttribute("data-path");
    if (path != null) this.zoom(this.blocks.find((block) => block.path === path)!);
  }

  private zoom(block: Block | null): void {
    this.focus = block;
    this.back.hidden = block === null;
    this.chart.redraw();
    if (block !== null) this.chart.plot.querySelector<SVGElement>("[aria-current]")?.focus();
  }

  private draw(width: number): Drawing {
    const [from, time] = this.focus === null ? [0, this.total] : [this.focus.begin, this.focus.time];
    const colours = new Map(this.blocks.filter(({ level }) => level === 0).map(({ path }, place) => [path, place]));
    let top = "", deepest = 0;
    const nodes: SVGElement[] = [];
    for (const block of this.blocks) {
      if (block.level === 0) top = block.path;
      const begin = Math.max(block.begin, from), end = Math.min(block.begin + block.time, from + time);
      if (end - begin < kLeastShare * time) continue;
      deepest = Math.max(deepest, block.level);
      nodes.push(this.node(block, (width * (begin - from)) / time, (width * (end - begin)) / time, seriesColour(colours.get(top)!)));
    }
    const group = svg("g", {}, ...nodes);
    oneTabStop(group, "[role=button]");
    return { height: (deepest + 1) * kRow, nodes: [group] };
  }

  private node(block: Block, x: number, width: number, colour: string): SVGElement {
    const text = `${block.path}: ${formatOne("ms", block.time)}, ${formatOne("share", block.time / this.total)}`;
    const y = block.level * kRow, isButton = width >= kLeastButton;
    const fits = [block.name, block.name.slice(0, Math.floor((block.name.length * (width - 16)) / textWidth(block.name))) + "…"].find((name) => name.length > 1 && textWidth(name) <= width - 8);
    const role = isButton ? { role: "button", "aria-label": text, "data-path": block.path, ...(block === this.focus ? { "aria-current": "true" } : {}) } : {};
    return svg("g", { class: "block", ...role }, svg("title", {}, text), svg("rect", { x, y, width, height: kBlock, fill: block.isOp ? "var(--band-2)" : "var(--band-1)", stroke: "var(--page)" }),
      svg("rect", { x, y, width, height: 3, fill: colour }), isButton && fits !== undefined ? textNode(fits, x + 4, y + 18) : null);
  }
}

export function flame(scopes: readonly JsonObject[]): HTMLElement | null {
  const blocks = blocksOf(scopes);
  if (blocks.length === 0) return null;
  const alternative = tableBehind("Time by module as a table", "Time by module", () => [
    { label: "module or op", kind: "text", values: blocks.map(({ path }) => path), indents: blocks.map(({ level }) => level) },
    { label: "time", kind: "ms", values: blocks.map(({ time }) => time) },
    { label: "calls", kind: "count", values: blocks.map(({ calls }) => calls) }]);
  return new Flame(blocks, alternative).chart.root;
}
