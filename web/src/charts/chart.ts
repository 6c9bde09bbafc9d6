// What every chart has: a drawing in SVG, made again for each width, under a heading, a legend whose buttons bring a
// series to the front, and buttons that save the picture; a text beside the pointer that screen readers also get; and a
// table with the same figures. Drawings name the variables of style.css as colours, which a saved picture resolves.
import { el, freshId, oneTabStop, svg } from "../elements/dom";
import { onThemeChange, withColours } from "../elements/theme";

export interface LegendEntry {
  label: string;
  swatch: SVGElement[];  // in a box of 22 x 12
}

export interface Drawing {
  height: number;
  nodes: SVGElement[];  // those of a legend entry have its number as data-series
}

export interface ChartSpec {
  title: string;
  help: string;  // empty: nothing to do but look
  legend: readonly LegendEntry[];
  controls?: HTMLElement | null;
  alternative: HTMLElement | null;
  draw: (width: number) => Drawing;
}

const kFontSize = 12;
const kLeastWidth = 240;
const kLineHeight = 16;
let measuring: CanvasRenderingContext2D | null = null;

export function textWidth(text: string, weight = ""): number {
  measuring ??= document.createElement("canvas").getContext("2d")!;
  measuring.font = `${weight} ${kFontSize}px system-ui, sans-serif`.trim();
  return measuring.measureText(text).width;
}

// Lines of at most `width` pixels; a longer word has a line of its own.
export function wrapped(text: string, width: number, weight = ""): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = lines.length === 0 ? word : `${lines[lines.length - 1]!} ${word}`;
    if (lines.length > 0 && textWidth(longer, weight) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

export function textNode(text: string, x: number, y: number, anchor: "start" | "middle" | "end" = "start", more: { [name: string]: string | number } = {}): SVGElement {
  return svg("text", { x, y, "text-anchor": anchor, fill: "var(--text)", ...more }, text);
}

function drawingOf(width: number, height: number, nodes: readonly SVGElement[]): SVGElement {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, 'Segoe UI', Arial, sans-serif", "font-size": kFontSize }, ...nodes);
}

export class Chart {
  readonly root: HTMLElement;
  readonly plot: HTMLElement;  // takes the focus, if there is something to do
  private readonly tip = el("div", { class: "tip", role: "status", hidden: true });
  private readonly tools: HTMLElement;
  private width = 0;
  private front = -1;  // the entry of the legend whose button is pressed
  private drawing: Drawing = { height: 0, nodes: [] };

  constructor(private readonly spec: ChartSpec) {
    const { title, help, legend, controls, alternative } = spec;
    const helpId = freshId("help");
    const role: { [name: string]: string | number } = help === "" ? { role: "img" } : { tabindex: 0, role: "application", "aria-roledescription": "chart", "aria-describedby": helpId };
    this.plot = el("div", { class: "plot", "aria-label": title, ...role });
    this.tools = el("div", { class: "legend", role: "toolbar", "aria-label": `Legend, and saving: ${title}` },
      ...legend.map((entry, place) => (entry.label === "" ? null : this.legendButton(entry, place))),
      el("span", { class: "save" }, ...(["SVG", "PNG"] as const).map((type) =>
        el("button", { type: "button", "aria-label": `Save as ${type}: ${title}`, click: () => void this.save(type) }, `↓ ${type}`))));
    oneTabStop(this.tools, "button");
    this.root = el("figure", { class: "chart" }, el("figcaption", {}, title), controls ?? null, this.tools,
      el("div", { class: "plot-box" }, this.plot, this.tip), help === "" ? null : el("p", { class: "help", id: helpId }, help), alternative);
    const fit = () => { if (Math.max(kLeastWidth, this.plot.clientWidth) !== this.width) this.redraw(); };
    new ResizeObserver(fit).observe(this.plot);
    onThemeChange(fit);
  }

  private legendButton({ label, swatch }: LegendEntry, place: number): HTMLElement {
    const button = el("button", { type: "button", class: "legend-entry", "aria-pressed": "false" },
      svg("svg", { width: 22, height: 12, class: "swatch", "aria-hidden": "true" }, ...swatch), label);
    button.addEventListener("click", () => {
      this.front = this.front === place ? -1 : place;
      for (const other of this.tools.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button && this.front >= 0));
      this.fade();
    });
    return button;
  }

  // The other series stay in sight, only paler.
  private fade(): void {
    for (const node of this.plot.querySelectorAll("[data-series]")) {
      node.setAttribute("opacity", this.front < 0 || node.getAttribute("data-series") === String(this.front) ? "1" : "0.2");
    }
  }

  redraw(): void {
    this.width = Math.max(kLeastWidth, this.plot.clientWidth);
    this.drawing = this.spec.draw(this.width);
    this.plot.replaceChildren(drawingOf(this.width, this.drawing.height, this.drawing.nodes));
    if (this.front >= 0) this.fade();
  }

  // The picture alone: with its heading and its legend, and with colours instead of their names.
  picture(): { text: string; width: number; height: number } {
    const { width } = this, nodes: SVGElement[] = [];
    let y = 0, x = 0;
    for (const line of wrapped(this.spec.title, width - 8, "600")) nodes.push(textNode(line, 4, (y += kLineHeight), "start", { "font-weight": 600 }));
    const entries = this.spec.legend.filter(({ label }) => label !== "");
    y += 8;
    for (const { label, swatch } of entries) {
      const size = 40 + textWidth(label);
      if (x > 0 && x + size > width) [x, y] = [0, y + kLineHeight];
      nodes.push(svg("g", { transform: `translate(${x + 4} ${y})` }, ...swatch.map((node) => node.cloneNode(true))), textNode(label, x + 30, y + 10));
      x += size;
    }
    if (entries.length > 0) y += kLineHeight + 8;
    nodes.push(svg("g", { transform: `translate(0 ${y})` }, ...[...this.plot.firstElementChild!.children].map((node) => node.cloneNode(true))));
    const height = Math.ceil(y + this.drawing.height);
    const whole = drawingOf(width, height, [svg("rect", { width, height, fill: "var(--page)" }), ...nodes]);
    return { text: withColours(new XMLSerializer().serializeToString(whole)), width, height };
  }

  private async save(type: "SVG" | "PNG"): Promise<void> {
    const { text, width, height } = this.picture();
    let blob: Blob | null = new Blob([text], { type: "image/svg+xml" });
    if (type === "PNG") {
      const image = new Image(), canvas = el("canvas", { width: 2 * width, height: 2 * height });
      image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
      await image.decode();
      canvas.getContext("2d")!.drawImage(image, 0, 0, 2 * width, 2 * height);
      blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    }
    const href = URL.createObjectURL(blob!);
    const name = this.spec.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60).replace(/^-|-$/g, "");
    el("a", { href, download: `${name}.${type.toLowerCase()}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  }

  // Shows lines beside a point of the plot, inside it.
  showTip(lines: readonly string[], x: number, y: number): void {
    this.tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
    this.tip.hidden = false;
    const { clientWidth } = this.plot, { offsetWidth } = this.tip;
    const left = x + 14 + offsetWidth > clientWidth ? x - 14 - offsetWidth : x + 14;
    this.tip.style.left = `${Math.max(0, Math.min(left, clientWidth - offsetWidth))}px`;
    this.tip.style.top = `${Math.max(0, y - 10)}px`;
  }

  hideTip(): void {
    this.tip.hidden = true;
  }
}
