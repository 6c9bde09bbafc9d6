// Elements of the page. All text goes in as text nodes, never as HTML: names in records come from anywhere.

type Child = Node | string | null;
type Attributes = { [name: string]: string | number | boolean | ((event: Event) => void) };

function apply(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
}

export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  apply(element, attributes, children);
  return element;
}

const kSvg = "http://www.w3.org/2000/svg";

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(kSvg, tag);
  apply(element, attributes, children);
  return element;
}

// Makes one stop of the Tab key of controls that belong together; arrow keys go from one to the next.
export function oneTabStop(container: HTMLElement | SVGElement, selector: string): void {
  const controls = () => [...container.querySelectorAll<HTMLElement | SVGElement>(selector)];
  const choose = (chosen: Element | null | undefined) => {
    for (const control of controls()) control.tabIndex = control === chosen ? 0 : -1;
  };
  container.addEventListener("focusin", ({ target }) => choose((target as Element).closest(selector)));
  container.addEventListener("keydown", (event) => {
    const all = controls(), place = all.findIndex((control) => control === document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[(event as KeyboardEvent).key];
    if (place < 0 || step === undefined) return;
    event.preventDefault();
    all[(place + step + all.length) % all.length]!.focus();
  });
  choose(controls()[0]);
}

let lastId = 0;
export function freshId(prefix: string): string {
  return `${prefix}-${++lastId}`;
}
