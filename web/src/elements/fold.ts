// Sections that a heading opens and closes. Links to a section open it, and print has everything open.
import { el } from "./dom";

type Part = HTMLElement | null;

// `note` stands beside the heading, so that a folded section says what it has.
export function fold(heading: "h2" | "h3", title: string, note: string, ...parts: Part[]): HTMLElement {
  return el("details", { class: "fold" }, el("summary", {}, el(heading, {}, title), note === "" ? null : el("span", { class: "note" }, note)), ...parts);
}

export function section(id: string, title: string, note: string, ...parts: Part[]): HTMLElement {
  return el("section", { id }, fold("h2", title, note, ...parts));
}

const closed = (selector: string) => [...document.querySelectorAll<HTMLDetailsElement>(`:is(${selector}):not([open])`)];

// Opens what the address names.
export function openTarget(): void {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target === null) return;
  for (let node: Element | null = target.querySelector(":scope > details") ?? target; node !== null; node = node.parentElement) {
    if (node instanceof HTMLDetailsElement) node.open = true;
  }
  target.scrollIntoView();
}

// Call it before charts listen to printing: they then have their width.
export function startFolds(): void {
  let opened: HTMLDetailsElement[] = [];
  const setOpen = (isOpen: boolean) => { for (const details of opened) details.open = isOpen; };
  addEventListener("beforeprint", () => { opened = closed(".fold, .evidence"); setOpen(true); });
  addEventListener("afterprint", () => setOpen(false));
  addEventListener("hashchange", openTarget);
  // A second click on a link changes no address.
  addEventListener("click", ({ target }) => { if (target instanceof Element && target.closest("a[href^='#']") !== null) setTimeout(openTarget); });
}

export function foldButton(): HTMLElement {
  const button = el("button", { type: "button", class: "fold-all" }, "Unfold all");
  button.addEventListener("click", () => {
    const isOpening = button.textContent === "Unfold all";
    for (const details of document.querySelectorAll<HTMLDetailsElement>(".fold")) details.open = isOpening;
    button.textContent = isOpening ? "Fold all" : "Unfold all";
  });
  return button;
}
