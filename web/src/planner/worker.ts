// The side of the worker: runs command lines in the program, which Emscripten made. Its files are in memory only.

interface Program {
  FS: { writeFile: (path: string, data: string) => void; mkdirTree: (path: string) => void; unlink: (path: string) => void };
  asm: { ridgepoint_run: () => number; ridgepoint_print_timeline: (most: number) => void };
}
declare function createPlanner(options: object): Promise<Program>;

export interface Request {
  id: number;
  words: string[];
  files?: { path: string; text: string }[];
  timeline?: number;  // the most events of the timeline that the command line draws
}
export interface Reply {
  id: number;
  code: number;
  output: string;
  messages: string;  // of standard error
  timeline: string | null;
}

const kTimeline = "/timeline.csv";
let output: string[] = [], messages: string[] = [];

type Import = (...values: unknown[]) => unknown;
interface Imports { [module: string]: { [name: string]: Import } }

// The program has pointers of 64 bits, which reach JavaScript as BigInt, and much of Emscripten 3.1.6 takes numbers.
function withNumbers(imports: Imports): WebAssembly.Imports {
  const kIntegers = ["fd_seek"];  // of 64 bits, and no pointers, but for the last
  // What these return is a pointer, and they say a number, or nothing.
  const kPointers: { [name: string]: (result: unknown, values: unknown[]) => unknown } = {
    emscripten_get_heap_max: (result) => BigInt(result as number), emscripten_memcpy_big: (_, [target]) => target,
  };
  return Object.fromEntries(Object.entries(imports).map(([module, functions]) => [module, Object.fromEntries(Object.entries(functions).map(([name, called]) => [name, (...values: unknown[]) => {
    const isKept = (place: number) => kIntegers.includes(name) && place < values.length - 1;
    const result = called(...values.map((value, place) => (typeof value === "bigint" && !isKept(place) ? Number(value) : value)));
    return kPointers[name]?.(result, values) ?? result;
  }]))]));
}

export function start(instantiate: (imports: WebAssembly.Imports) => Promise<WebAssembly.WebAssemblyInstantiatedSource>): Promise<Program> {
  return new Promise((started, failed) => {
    const instantiateWasm = (imports: Imports, receive: (instance: WebAssembly.Instance) => void): object => {
      instantiate(withNumbers(imports)).then(({ instance }) => receive(instance)).catch(failed);
      return {};
    };
    createPlanner({ instantiateWasm, noInitialRun: true, print: (line: string) => output.push(line), printErr: (line: string) => messages.push(line) }).then(started, failed);
  });
}

export function answer(program: Program, { id, words, files = [], timeline }: Request): Reply {
  output = [];
  messages = [];
  for (const { path, text } of files) {
    program.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")) || "/");
    program.FS.writeFile(path, text);
  }
  program.FS.writeFile("/words.json", JSON.stringify(timeline === undefined ? words : [...words, "--timeline", kTimeline]));
  const code = program.asm.ridgepoint_run();
  const reply: Reply = { id, code, output: output.join("\n"), messages: messages.join("\n"), timeline: null };
  if (timeline === undefined || code !== 0) return reply;
  output = [];
  program.asm.ridgepoint_print_timeline(timeline);
  program.FS.unlink(kTimeline);
  return { ...reply, timeline: output.join("\n") };
}
