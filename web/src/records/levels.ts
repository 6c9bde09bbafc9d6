// A timeline as levels: how much each category has after every event, and the stretches of its phases.
import type { JsonObject, TimelineColumns } from "./data";
import { numberAt, objectsAt, textAt } from "./data";
import { categories } from "./fields";

export interface Stretch {
  phase: string;
  iteration: number;
  begin: number;  // first event
  end: number;    // past the last
}

export interface Levels {
  xs: { time: Float64Array; events: Float64Array };
  hasTimes: boolean;
  stacks: Float64Array[];  // a category and all below it, as they stand in a chart; the last is all that is allocated
  reserved: Float64Array;
  stretches: Stretch[];
}

function sign(action: string): number {
  return action === "alloc" ? 1 : action === "free" ? -1 : 0;
}

export function levelsOf(columns: TimelineColumns): Levels {
  const count = columns.time_ms.length;
  const stacks = categories.map(() => new Float64Array(count));
  const now = categories.map(() => 0);
  const places = columns.origins.map(({ category }) => categories.indexOf(category));
  const signs = columns.origins.map(({ action }) => sign(action));
  const time = new Float64Array(count), events = new Float64Array(count);
  let latest = -Infinity, number = -Infinity;
  for (let i = 0; i < count; ++i) {
    const origin = columns.origin[i]!;
    const place = places[origin] ?? -1;
    if (place >= 0) now[place]! += signs[origin]! * columns.bytes[i]!;
    let sum = 0;
    for (let category = 0; category < now.length; ++category) stacks[category]![i] = sum += Math.max(0, now[category]!);
    // What no category explains is shown with the last one.
    stacks[stacks.length - 1]![i] = columns.allocated_bytes[i]!;
    time[i] = latest = Math.max(latest, columns.time_ms[i]!);
    events[i] = number = Math.max(number, columns.event[i]!);
  }
  return {
    xs: { time, events }, hasTimes: count > 0 && time[count - 1]! > time[0]!, stacks, reserved: Float64Array.from(columns.reserved_bytes),
    stretches: stretchesOf(columns),
  };
}

function stretchesOf(columns: TimelineColumns): Stretch[] {
  const stretches: Stretch[] = [];
  columns.origin.forEach((origin, event) => {
    const phase = columns.origins[origin]!.phase, iteration = columns.iteration[event]!;
    const last = stretches[stretches.length - 1];
    if (last !== undefined && last.phase === phase && last.iteration === iteration) last.end = event + 1;
    else stretches.push({ phase, iteration, begin: event, end: event + 1 });
  });
  return stretches;
}

// The formula of an allocation, from the largest allocations in the records of `ridgepoint memory` on the same page.
// These add up layers, so "layers.3.ffn" is "layers.*.ffn" there. Empty where they do not have it, or several.
export class Formulas {
  private readonly known = new Map<string, string>();

  constructor(records: readonly JsonObject[]) {
    for (const record of records) {
      for (const group of objectsAt(record, "memory.largest_allocations")) {
        const key = Formulas.key(textAt(group, "module"), textAt(group, "op"), numberAt(group, "block_bytes") ?? 0);
        const formula = textAt(group, "formula");
        const earlier = this.known.get(key);
        this.known.set(key, earlier === undefined || earlier === formula ? formula : "");
      }
    }
  }

  private static key(module: string, op: string, bytes: number): string {
    return JSON.stringify([module.replace(/\.\d+(?=\.|$)/g, ".*"), op, bytes]);
  }

  find(module: string, op: string, bytes: number): string {
    return this.known.get(Formulas.key(module, op, bytes)) ?? "";
  }
}
