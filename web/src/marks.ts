// Points and lines on a canvas. A series has a colour and a shape, so that colour is not all that tells it apart.

export type Shape = "dot" | "oom" | "hollow";

const kSides = [0, 4, 3, 5];  // of series 0, 1, 2, 3, 4, ...: a circle, a square, a triangle, a pentagon

function outline(context: CanvasRenderingContext2D, series: number, x: number, y: number, radius: number): void {
  const sides = kSides[series % kSides.length]!;
  context.beginPath();
  if (sides === 0) {
    context.arc(x, y, radius, 0, 2 * Math.PI);
    return;
  }
  for (let corner = 0; corner < sides; ++corner) {
    const angle = -Math.PI / 2 + (2 * Math.PI * (corner + (sides === 4 ? 0.5 : 0))) / sides;
    const r = radius * 1.2;
    if (corner === 0) context.moveTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
    else context.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  context.closePath();
}

export function drawMark(
  context: CanvasRenderingContext2D, shape: Shape, series: number, x: number, y: number, radius: number, colour: string,
): void {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = radius / 2;
  if (shape === "oom") {
    context.beginPath();
    context.moveTo(x - radius, y - radius);
    context.lineTo(x + radius, y + radius);
    context.moveTo(x + radius, y - radius);
    context.lineTo(x - radius, y + radius);
    context.stroke();
    return;
  }
  outline(context, series, x, y, radius);
  if (shape === "dot") context.fill();
  else context.stroke();
}

export function drawLine(context: CanvasRenderingContext2D, points: readonly [number, number][], colour: string, width: number): void {
  context.beginPath();
  points.forEach(([x, y], place) => (place === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke();
}
