// Builds the page from its data.
import type { ReportData, ReportFile } from "./data";
import { el } from "./dom";
import { answersSection } from "./answers";
import { experimentSection, precisionSection, rowsSection } from "./experiment";
import { type Experiment, groupRecords } from "./grouping";
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

// The sections of commands, and of the parts of a study in their order.
function inOrder(files: readonly ReportFile[], experiments: readonly Experiment[]): (HTMLElement | null)[] {
  const ids = [...new Set(files.flatMap(({ part }) => (part === null ? [] : [part.id])))];
  const ofParts = ids.map((id) => {
    const experiment = experiments.find(({ part }) => part?.id === id);
    return experiment === undefined ? rowsSection(files.find(({ part }) => part?.id === id)!) : experimentSection(experiment);
  });
  return [...experiments.filter(({ part }) => part === null).map(experimentSection), ...ofParts];
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
  const partless = data.files.filter(({ part }) => part === null);
  const sections = [
    answersSection(data.answers), overview(data, experiments), ...inOrder(data.files, experiments),
    profileSection(experiments.find(({ command }) => command === "profile")), memorySection(experiments, timelines),
    precisionSection(partless.flatMap((file) => file.rows)),
  ].filter((section) => section !== null);
  top.after(contents(sections));
  main.append(...sections);
}

build(JSON.parse(document.getElementById("ridgepoint-data")!.textContent ?? "") as ReportData);
