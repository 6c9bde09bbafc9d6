// The form: a field for each option of `plan`, as the program describes it. An empty field leaves its option out.
import { el, freshId } from "../elements/dom";
import type { CommandDescription, OptionDescription, Values } from "./command";

// What one asks for first; the other options stand folded in the groups of the help.
const kFirst = ["--model", "--card", "--mode", "--context", "--batch", "--dtype"];
// What a page has no use for: a machine of its own, files, and how tables are printed.
const kWithoutUse = ["--device", "--threads", "--memory-limit", "--explain", "--fail-unless-fits", "--help"];
const kGroupsWithoutUse = ["Output", "Options", "Calculations"];
const kInitial = new Map([["--model", "llama-3.1-8b"], ["--card", "H100 SXM"]]);

const longName = ({ names }: OptionDescription) => names.find((name) => name.startsWith("--")) ?? "";

// "[1; of a config.json 4]" at the end of a help is what the run has without the option.
function usualOf(help: string): string {
  return /\[([^\]]*)\]$/.exec(help)?.[1] ?? "";
}

class Field {
  readonly name: string;
  readonly input: HTMLInputElement | HTMLSelectElement;
  readonly root: HTMLElement;

  constructor(option: OptionDescription) {
    this.name = longName(option);
    const id = freshId("option"), helpId = `${id}-help`, usual = usualOf(option.help);
    const shared = { id, name: this.name.slice(2), "aria-describedby": helpId };
    const list = option.choices.length > 12 ? el("datalist", { id: `${id}-list` }, ...option.choices.map((value) => el("option", { value }))) : null;
    if (option.value === "") this.input = el("input", { ...shared, type: "checkbox" });
    else if (option.choices.length > 0 && (list === null || this.name === "--card")) {
      this.input = el("select", shared, el("option", { value: "" }, usual === "" ? "not given" : `usual: ${usual}`), ...option.choices.map((value) => el("option", { value }, value)));
    } else {
      this.input = el("input", { ...shared, type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false", placeholder: usual, ...(list === null ? {} : { list: `${id}-list` }) });
    }
    this.input.value = kInitial.get(this.name) ?? "";
    if (this.name === "--card") this.input.querySelector("option")?.remove();
    const label = this.name.slice(2).replaceAll("-", " ");
    this.root = el("div", { class: "field" }, el("label", { for: id }, label), this.input, this.name === "--card" ? null : list, el("p", { class: "hint", id: helpId }, option.help));
  }

  get value(): string | null {
    if (this.input instanceof HTMLInputElement && this.input.type === "checkbox") return this.input.checked ? "" : null;
    return this.input.value.trim() === "" ? null : this.input.value.trim();
  }

  set value(value: string | null) {
    if (this.input instanceof HTMLInputElement && this.input.type === "checkbox") this.input.checked = value !== null;
    else this.input.value = value ?? "";
  }
}

export class Form {
  readonly root: HTMLElement;
  private readonly fields: Field[];

  constructor(plan: CommandDescription, dropped: HTMLElement, changed: () => void) {
    const options = plan.options.filter((option) => !kWithoutUse.includes(longName(option)) && !kGroupsWithoutUse.includes(option.group));
    this.fields = options.map((option) => new Field(option));
    const fieldOf = (name: string) => this.fields.find((field) => field.name === name);
    const first = kFirst.flatMap((name) => fieldOf(name)?.root ?? []);
    first.splice(1, 0, dropped);
    const groups = [...new Set(options.map(({ group }) => group))].map((group) => {
      const roots = options.flatMap((option, place) => (option.group === group && !kFirst.includes(longName(option)) ? [this.fields[place]!.root] : []));
      return roots.length === 0 ? null : el("details", { class: "group" }, el("summary", {}, group), ...roots);
    });
    this.root = el("form", { "aria-label": "What to plan" }, el("div", { class: "first" }, ...first), ...groups);
    this.root.addEventListener("submit", (event) => event.preventDefault());
    this.root.addEventListener("input", changed);
  }

  get values(): Values {
    return new Map(this.fields.flatMap(({ name, value }) => (value === null ? [] : [[name, value] as const])));
  }

  set(name: string, value: string): void {
    for (const field of this.fields) if (field.name === name) field.value = value;
  }

  // The values of a command line, and nothing else.
  setAll(values: Values): void {
    for (const field of this.fields) field.value = values.get(field.name) ?? null;
  }

  choicesOf(plan: CommandDescription, name: string): readonly string[] {
    return plan.options.find((option) => longName(option) === name)?.choices ?? [];
  }
}
