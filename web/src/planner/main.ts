// The page that plans: a form, the program in a worker, and its answers. It sends nothing anywhere.
import type { JsonObject, TimelineColumns } from "../records/data";
import { el } from "../elements/dom";
import { Formulas } from "../records/levels";
import { limitsOf } from "../charts/plane";
import { startTheme, themeButton } from "../elements/theme";
import { timeline } from "../charts/timeline";
import { type CommandDescription, shellText, timelineWords, type Values, wordsOf } from "./command";
import { contentOf, Engine } from "./engine";
import { Form } from "./form";
import { cardsTable, figuresOf, peakChart, verdictOf } from "./results";
import type { Reply } from "./worker";

const kMostEvents = 20000;
const kPause = 150;  // ms without a key before a plan is made

const messageOf = ({ messages }: Reply) => messages.replaceAll(/^ridgepoint: /gm, "").replaceAll("\n  ", " ");
const recordsOf = ({ output }: Reply) => (output === "" ? [] : (JSON.parse(output) as JsonObject[]));

class Page {
  private readonly engine = new Engine();
  private readonly answer = el("div", { class: "answer-now", role: "status" });
  private readonly charts = el("div", {});
  private readonly cards = el("div", {});
  private readonly command = el("pre", { tabindex: 0, "aria-label": "Command line" });
  private readonly time = el("p", { class: "note" });
  private plan!: CommandDescription;
  private memory!: CommandDescription;
  private form!: Form;
  private files: { path: string; text: string }[] = [];
  private asked = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  async start(): Promise<void> {
    startTheme();
    const commands = JSON.parse(contentOf("ridgepoint-commands")) as CommandDescription[];
    [this.plan, this.memory] = ["plan", "memory"].map((wanted) => commands.find(({ name }) => name === wanted)!) as [CommandDescription, CommandDescription];
    this.form = new Form(this.plan, this.drop(), () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.ask(), kPause);
    });
    this.readAddress();
    addEventListener("hashchange", () => {
      this.readAddress();
      void this.ask();
    });
    const copy = el("button", { type: "button", click: () => void navigator.clipboard.writeText(this.command.textContent ?? "") }, "Copy");
    const says = el("section", { "aria-labelledby": "says" }, el("h2", { id: "says" }, "The command line that says the same"), this.command, copy, this.time);
    const results = el("div", { class: "results" }, el("h2", { class: "hidden" }, "Result"), this.answer, this.charts, says, this.cards);
    document.body.replaceChildren(el("a", { class: "skip", href: "#results" }, "Skip to the result"), this.heading(),
      el("main", { class: "planner" }, el("section", { "aria-label": "Settings" }, this.form.root), el("section", { id: "results", tabindex: -1, "aria-label": "Result" }, results)));
    await this.ask();
  }

  private heading(): HTMLElement {
    return el("header", {}, el("h1", {}, "Will it fit? Memory and time of a training step"), el("div", {}, themeButton()));
  }

  // A config.json by choice or by drop; it becomes a file of the program.
  private drop(): HTMLElement {
    const input = el("input", { type: "file", id: "config", accept: ".json,application/json" });
    const take = async (file: File | undefined) => {
      if (file === undefined) return;
      this.files = [{ path: "/dropped/config.json", text: await file.text() }];
      this.form.set("--model", "dropped/config.json");
      await this.ask();
    };
    input.addEventListener("change", () => void take(input.files?.[0]));
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      void take(event.dataTransfer?.files[0]);
    });
    return el("div", { class: "field" }, el("label", { for: "config" }, "or a config.json"), input, el("p", { class: "hint" }, "Choose a file, or drop it anywhere on this page. It stays in this browser."));
  }

  // The address has the settings behind #, so that a link says them.
  private readAddress(): void {
    if (location.hash.length < 2) return;
    this.form.setAll(new Map([...new URLSearchParams(location.hash.slice(1))].map(([name, value]) => [`--${name}`, value])));
  }

  private writeAddress(values: Values): void {
    const parts = new URLSearchParams([...values].map(([name, value]) => [name.slice(2), value]));
    history.replaceState(null, "", `#${parts.toString()}`);
  }

  private async ask(): Promise<void> {
    const now = ++this.asked, isWanted = () => now === this.asked;
    const values = this.form.values, words = wordsOf("plan", values), begin = performance.now();
    this.command.textContent = shellText(words);
    this.writeAddress(values);
    const reply = await this.engine.run({ words: [...words, "--format", "json"], files: this.files }, isWanted);
    if (!isWanted()) return;
    const records = recordsOf(reply), [first] = records;
    const message = messageOf(reply);
    this.time.textContent = `Answered in ${(performance.now() - begin).toFixed(0)} ms.`;
    const notes = message === "" ? null : el("p", { class: first === undefined ? "verdict-line bad" : "note" }, message);
    this.answer.replaceChildren(...[...records.map(verdictOf), notes, records.length === 1 ? figuresOf(first!) : null].filter((part) => part !== null));
    this.charts.replaceChildren();
    this.cards.replaceChildren();
    document.documentElement.dataset["answered"] = String(now);
    if (first === undefined) return;
    const peak = peakChart(records);
    if (peak !== null) this.charts.append(peak);
    if (records.length === 1) await this.draw(values, first, isWanted);
    if (isWanted()) await this.tryCards(values, isWanted);
  }

  private async draw(values: Values, record: JsonObject, isWanted: () => boolean): Promise<void> {
    const words = timelineWords(values, record, this.memory);
    if (words === null) return;
    const reply = await this.engine.run({ words: [...words, "--format", "json"], files: this.files, timeline: kMostEvents }, isWanted);
    if (!isWanted() || reply.timeline === null) return;
    const columns = JSON.parse(reply.timeline) as TimelineColumns;
    if (columns.event.length > 1) this.charts.append(timeline("Memory of one step, by category", columns, new Formulas(recordsOf(reply)), limitsOf([record])));
  }

  private async tryCards(values: Values, isWanted: () => boolean): Promise<void> {
    const records: JsonObject[] = [];
    for (const card of this.form.choicesOf(this.plan, "--card")) {
      const reply = await this.engine.run({ words: [...wordsOf("plan", new Map([...values, ["--card", card]])), "--format", "json"], files: this.files }, isWanted);
      if (!isWanted()) return;
      records.push(...recordsOf(reply));
    }
    this.cards.replaceChildren(cardsTable(records));
    document.documentElement.dataset["cards"] = String(this.asked);
  }
}

void new Page().start();
