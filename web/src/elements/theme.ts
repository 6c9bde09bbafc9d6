// Light and dark: the system's preference until the reader chooses. Charts are drawn again for printing, which is light
// and as wide as paper.
import { el } from "./dom";

type Theme = "light" | "dark";
const listeners = new Set<() => void>();
const darkPreferred = () => matchMedia("(prefers-color-scheme: dark)");
let chosen: Theme | null = null;
let isPrinting = false;

function current(): Theme {
  if (isPrinting) return "light";
  return chosen ?? (darkPreferred().matches ? "dark" : "light");
}

function show(): void {
  document.documentElement.dataset["theme"] = current();
  document.documentElement.toggleAttribute("data-printing", isPrinting);
  for (const listener of listeners) listener();
}

export function onThemeChange(listener: () => void): void {
  listeners.add(listener);
}

// The text with the values of the colour variables of style.css, for a picture that has no style.
export function withColours(text: string): string {
  const style = getComputedStyle(document.documentElement);
  return text.replace(/var\((--[\w-]+)\)/g, (_, name: string) => style.getPropertyValue(name).trim());
}

export const kSeriesColours = 8;
export function seriesColour(index: number): string {
  return `var(--series-${(index % kSeriesColours) + 1})`;
}

export function startTheme(): void {
  darkPreferred().addEventListener("change", show);
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
