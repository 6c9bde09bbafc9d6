// What every chart has around it: a heading, a legend whose buttons hide a series, a text beside the pointer that
// screen readers also get, and a table with the same figures.
import { el, freshId, oneTabStop } from "./dom";
import { onThemeChange } from "./theme";

export interface LegendEntry {
  label: string;
  colour: () => string;
  toggle?: (isShown: boolean) => void;
}

export interface ChartFrame {
  root: HTMLElement;
  plot: HTMLElement;  // takes the focus and the chart
  tip: HTMLElement;   // positioned within plot
}

function legendOf(entries: readonly LegendEntry[]): HTMLElement {
  const items = entries.map(({ label, colour, toggle }) => {
    const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
    const paint = () => { swatch.style.backgroundColor = colour(); };
    onThemeChange(paint);
    paint();
    if (toggle === undefined) return el("span", { class: "legend-entry" }, swatch, label);
    const button = el("button", { type: "button", class: "legend-entry", "aria-pressed": "true" }, swatch, label);
    button.addEventListener("click", () => {
      const isShown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isShown));
      toggle(isShown);
    });
    return button;
  });
  const root = el("div", { class: "legend" }, ...items);
  oneTabStop(root, "button");
  return root;
}

export function chartFrame(title: string, help: string, legend: readonly LegendEntry[], alternative: HTMLElement | null): ChartFrame {
  const helpId = freshId("help");
  const plot = el("div", { class: "plot", tabindex: 0, role: "application", "aria-roledescription": "chart", "aria-label": title, "aria-describedby": helpId });
  const tip = el("div", { class: "tip", role: "status", hidden: true });
  const root = el("figure", { class: "chart" },
    el("figcaption", {}, title), legend.some(({ label }) => label !== "") ? legendOf(legend) : null,
    el("div", { class: "plot-box" }, plot, tip), el("p", { class: "help", id: helpId }, help), alternative);
  return { root, plot, tip };
}

// Shows lines beside a point of the plot, inside it.
export function showTip(frame: ChartFrame, lines: readonly string[], x: number, y: number): void {
  frame.tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
  frame.tip.hidden = false;
  const { clientWidth } = frame.plot;
  const left = x + 14 + frame.tip.offsetWidth > clientWidth ? x - 14 - frame.tip.offsetWidth : x + 14;
  frame.tip.style.left = `${Math.max(0, Math.min(left, clientWidth - frame.tip.offsetWidth))}px`;
  frame.tip.style.top = `${Math.max(0, y - 10)}px`;
}

export function hideTip(frame: ChartFrame): void {
  frame.tip.hidden = true;
}
