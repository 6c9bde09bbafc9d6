// Builds the page from its data.
import type { ReportData } from "./data";
import { el } from "./dom";
import { experimentSection, precisionSection } from "./experiment";
import { groupRecords } from "./grouping";
import { Formulas } from "./levels";
import { memorySection } from "./memory";
import { overview } from "./overview";
import { profileSection } from "./profile";
import { startTheme, themeButton } from "./theme";
import { timeline } from "./timeline";

function contents(sections: readonly HTMLElement[]): HTMLElement {
  const links = sections.map((section) => el("li", {}, el("a", { href: `#${section.id}` }, section.querySelector("h2")!.textContent)));
  return el("nav", { "aria-label": "Contents" }, el("ul", {}, ...links));
}

function build(data: ReportData): void {
  document.title = data.title;
  startTheme();
  const experiments = groupRecords(data.files);
  const formulas = new Formulas(experiments.flatMap(({ records }) => records));
  const main = el("main", {});
  const top = el("header", {}, el("h1", {}, data.title), themeButton());
  document.body.replaceChildren(el("a", { class: "skip", href: "#overview" }, "Skip to the overview"), top, main, el("footer", {}, data.made_by));
  const timelines = data.files.filter((file) => file.timeline !== null && file.timeline.time_ms.length > 0)
    .map((file) => timeline(`Memory of ${file.name}, by category`, file.timeline!, formulas));
  const sections = [
    overview(data, experiments), ...experiments.map(experimentSection),
    profileSection(experiments.find(({ command }) => command === "profile")), memorySection(experiments, timelines),
    precisionSection(data.files.flatMap((file) => file.rows)),
  ].filter((section) => section !== null);
  top.after(contents(sections));
  main.append(...sections);
}

build(JSON.parse(document.getElementById("ridgepoint-data")!.textContent ?? "") as ReportData);
