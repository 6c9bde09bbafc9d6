// Light and dark: the system's preference until the reader chooses. Canvases are drawn again when it changes, and for
// printing, which is light and as wide as paper.
import { el } from "./dom";

type Theme = "light" | "dark";
const listeners = new Set<() => void>();
const darkPreferred = matchMedia("(prefers-color-scheme: dark)");
let chosen: Theme | null = null;
let isPrinting = false;

function current(): Theme {
  if (isPrinting) return "light";
  return chosen ?? (darkPreferred.matches ? "dark" : "light");
}

function show(): void {
  document.documentElement.dataset["theme"] = current();
  document.documentElement.toggleAttribute("data-printing", isPrinting);
  for (const listener of listeners) listener();
}

export function onThemeChange(listener: () => void): void {
  listeners.add(listener);
}

// The value of a colour variable of style.css, for a canvas.
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const kSeriesColours = 8;
export function seriesColour(index: number): string {
  return colour(`series-${(index % kSeriesColours) + 1}`);
}

export function startTheme(): void {
  darkPreferred.addEventListener("change", show);
  addEventListener("beforeprint", () => { isPrinting = true; show(); });
  addEventListener("afterprint", () => { isPrinting = false; show(); });
  show();
}

export function themeButton(): HTMLElement {
  const button = el("button", { type: "button", class: "theme" });
  const label = () => {
    button.textContent = current() === "dark" ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    chosen = current() === "dark" ? "light" : "dark";
    show();
  });
  onThemeChange(label);
  label();
  return button;
}
