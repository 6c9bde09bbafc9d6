// Points and lines of a series. A series has a colour, a shape and a pattern of dashes, so that colour is not all that
// tells it apart, and one that lies on another shows through its gaps.
import { svg } from "../elements/dom";
import { seriesColour } from "../elements/theme";

export type Shape = "dot" | "oom" | "hollow";

const kSides = [0, 4, 3, 5];  // of series 0, 1, 2, 3, 4, ...: a circle, a square, a triangle, a pentagon
const kDashes = ["", "9 4", "2 3", "9 3 2 3", "5 3", "14 4", "9 3 2 3 2 3", "1 4"];

function corners(sides: number, x: number, y: number, radius: number): string {
  return Array.from({ length: sides }, (_, corner) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * (corner + (sides === 4 ? 0.5 : 0))) / sides;
    return `${(x + 1.2 * radius * Math.cos(angle)).toFixed(1)},${(y + 1.2 * radius * Math.sin(angle)).toFixed(1)}`;
  }).join(" ");
}

export function markNode(shape: Shape, style: number, x: number, y: number, radius: number): SVGElement {
  const colour = seriesColour(style);
  if (shape === "oom") {
    return svg("path", { d: `M${x - radius},${y - radius}l${2 * radius},${2 * radius}m0,${-2 * radius}l${-2 * radius},${2 * radius}`, stroke: colour, "stroke-width": radius / 2, fill: "none" });
  }
  const paint = shape === "dot" ? { fill: colour, stroke: "var(--page)", "stroke-width": 0.8 } : { fill: "none", stroke: colour, "stroke-width": 1.8 };
  const sides = kSides[style % kSides.length]!;
  return sides === 0 ? svg("circle", { cx: x, cy: y, r: radius, ...paint }) : svg("polygon", { points: corners(sides, x, y, radius), ...paint });
}

// Published figures have thin lines.
export function lineNode(points: readonly [number, number][], style: number, isThin: boolean): SVGElement {
  return svg("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", stroke: seriesColour(style),
    "stroke-width": isThin ? 1 : 1.8, "stroke-dasharray": kDashes[style % kDashes.length]! });
}

export function squareNode(colour: string): SVGElement {
  return svg("rect", { x: 5, y: 0, width: 12, height: 12, rx: 2, fill: colour });
}
