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

let lastId = 0;
export function freshId(prefix: string): string {
  return `${prefix}-${++lastId}`;
}
