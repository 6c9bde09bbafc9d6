// Time by module as nested blocks: a block is as wide as its time, and stands below the module that contains it. A
// block is a button that makes it as wide as the view, unless it is too narrow for a pointer.
import { type Block, blocksOf } from "./blocks";
import type { JsonObject } from "./data";
import { el, oneTabStop } from "./dom";
import { formatOne } from "./format";
import { onThemeChange, seriesColour } from "./theme";
import { tableBehind } from "./table";

const kLeastShare = 0.002;  // narrower blocks are left out of the view
const kLeastButton = 24;    // pixels

class Flame {
  readonly root: HTMLElement;
  private readonly view = el("div", { class: "flame" });
  private readonly back: HTMLButtonElement;
  private readonly resetTabStop: () => void;
  private focus: Block | null = null;
  private readonly total: number;

  constructor(private readonly blocks: readonly Block[], alternative: HTMLElement) {
    this.total = blocks.filter(({ level }) => level === 0).reduce((sum, { time }) => sum + time, 0);
    this.back = el("button", { type: "button", click: () => this.zoom(null) }, "Show everything");
    this.root = el("figure", { class: "chart" }, el("figcaption", {}, "Kernel time of a step by module: a block is as wide as its time"),
      el("p", { class: "help" }, "A click makes a block as wide as the view. ", this.back), this.view, alternative);
    this.resetTabStop = oneTabStop(this.view, "button");
    onThemeChange(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.draw();
  }

  private zoom(block: Block | null): void {
    this.focus = block;
    this.draw();
    if (block !== null) this.view.querySelector<HTMLElement>("[aria-current]")?.focus();
  }

  private draw(): void {
    const [from, width] = this.focus === null ? [0, this.total] : [this.focus.begin, this.focus.time];
    const colours = new Map(this.blocks.filter(({ level }) => level === 0).map(({ path }, place) => [path, place]));
    let top = "", deepest = 0;
    const shown: HTMLElement[] = [];
    for (const block of this.blocks) {
      if (block.level === 0) top = block.path;
      const begin = Math.max(block.begin, from), end = Math.min(block.begin + block.time, from + width);
      if (end - begin < kLeastShare * width) continue;
      deepest = Math.max(deepest, block.level);
      shown.push(this.element(block, (begin - from) / width, (end - begin) / width, seriesColour(colours.get(top)!)));
    }
    this.view.style.height = `${(deepest + 1) * 1.7}rem`;
    this.view.replaceChildren(...shown);
    this.resetTabStop();
    this.back.hidden = this.focus === null;
  }

  private element(block: Block, left: number, width: number, colour: string): HTMLElement {
    const text = `${block.path}: ${formatOne("ms", block.time)}, ${formatOne("share", block.time / this.total)}`;
    const name = block.isOp ? "block op" : "block";
    const element = width * this.view.clientWidth < kLeastButton ? el("div", { class: name, title: text }) :
      el("button", { type: "button", class: name, title: text, "aria-label": text, click: () => this.zoom(block) }, block.name);
    if (block === this.focus) element.setAttribute("aria-current", "true");
    element.style.left = `${100 * left}%`;
    element.style.width = `${100 * width}%`;
    element.style.top = `${block.level * 1.7}rem`;
    element.style.borderTopColor = colour;
    return element;
  }
}

export function flame(scopes: readonly JsonObject[]): HTMLElement | null {
  const blocks = blocksOf(scopes);
  if (blocks.length === 0) return null;
  const alternative = tableBehind("Time by module as a table", "Time by module", () => [
    { label: "module or op", kind: "text", values: blocks.map(({ path }) => path), indents: blocks.map(({ level }) => level) },
    { label: "time", kind: "ms", values: blocks.map(({ time }) => time) },
    { label: "calls", kind: "count", values: blocks.map(({ calls }) => calls) }]);
  return new Flame(blocks, alternative).root;
}
