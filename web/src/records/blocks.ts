// Scopes of a profile as blocks that stand below the module that contains them.
import { type JsonObject, numberAt, textAt } from "./data";

export interface Block {
  path: string;
  name: string;   // the last part of the path
  level: number;  // from 0
  time: number;
  begin: number;  // where it stands, in units of time
  calls: number | null;
  isOp: boolean;
}

// The rows of `profile.scopes`: depth first, each module before what is in it. Siblings stand side by side in that order.
export function blocksOf(scopes: readonly JsonObject[]): Block[] {
  const blocks: Block[] = [];
  const nextBegin: number[] = [0];  // a level: where its next block begins
  let parents: Block[] = [];
  for (const scope of scopes) {
    const path = textAt(scope, "path"), level = (numberAt(scope, "level") ?? 1) - 1, time = numberAt(scope, "time_ms") ?? 0;
    if (level < 0 || level > parents.length || !(time >= 0)) continue;
    parents = parents.slice(0, level);
    const parent = parents[level - 1];
    const prefix = parent === undefined ? "" : `${parent.path}.`;
    const begin = nextBegin[level] ?? 0;
    const block = { path, name: path.startsWith(prefix) ? path.slice(prefix.length) : path, level, time, begin, calls: numberAt(scope, "calls"), isOp: scope["is_op"] === true };
    blocks.push(block);
    parents.push(block);
    nextBegin[level] = begin + time;
    nextBegin[level + 1] = begin;
    nextBegin.length = level + 2;
  }
  return blocks;
}
