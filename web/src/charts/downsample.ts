// Long series drawn in few pixels, with every peak and trough kept.

// Indexes into [begin, end) to draw in `buckets` stretches of equal x: the first, lowest, highest and last of each, in
// order and once each. `xs` ascends. All indexes if they are few.
export function keepExtremes(
  xs: ArrayLike<number>, ys: ArrayLike<number>, begin: number, end: number, buckets: number,
): number[] {
  const count = end - begin;
  const all: number[] = [];
  if (count <= 4 * buckets) {
    for (let i = begin; i < end; ++i) all.push(i);
    return all;
  }
  const first = xs[begin]!, width = (xs[end - 1]! - first) / buckets;
  let i = begin;
  for (let bucket = 0; bucket < buckets && i < end; ++bucket) {
    const limit = bucket === buckets - 1 ? Infinity : first + (bucket + 1) * width;
    const start = i;
    let low = i, high = i;
    for (; i < end && xs[i]! < limit; ++i) {
      if (ys[i]! < ys[low]!) low = i;
      if (ys[i]! > ys[high]!) high = i;
    }
    if (i === start) continue;
    const picked = [start, Math.min(low, high), Math.max(low, high), i - 1];
    for (const index of picked) if (all.length === 0 || index > all[all.length - 1]!) all.push(index);
  }
  return all;
}

// The first index in [0, xs.length] whose x is at least `x`.
export function lowerBound(xs: ArrayLike<number>, x: number): number {
  let low = 0, high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
