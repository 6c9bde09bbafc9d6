// Builds the page from its data.
import type { ReportData, ReportFile, StudyPart } from "./data";
import { el } from "./dom";
import { answersSection } from "./answers";
import { experimentSection, precisionSection, rowsSection } from "./experiment";
import { type Experiment, groupRecords } from "./grouping";
import { Formulas } from "./levels";
import { memoryParts, memorySection } from "./memory";
import { overview } from "./overview";
import { profileParts, profileSection } from "./profile";
import { startTheme, themeButton } from "./theme";
import { timeline } from "./timeline";

function contents(sections: readonly HTMLElement[]): HTMLElement {
  const links = sections.map((section) => el("li", {}, el("a", { href: `#${section.id}` }, section.querySelector("h2")!.textContent)));
  return el("nav", { "aria-label": "Contents" }, el("ul", {}, ...links));
}

const timelinesOf = (files: readonly ReportFile[], formulas: Formulas) =>
  files.filter((file) => file.timeline !== null && file.timeline.time_ms.length > 0)
    .map((file) => timeline(`Memory of ${file.name}, by category`, file.timeline!, formulas));

// The section of a part of a study: all that its files have.
function partSection(part: StudyPart, files: readonly ReportFile[], experiments: readonly Experiment[], formulas: Formulas): HTMLElement | null {
  const own = files.filter((file) => file.part?.id === part.id);
  const experiment = experiments.find((each) => each.part?.id === part.id);
  if (experiment === undefined) return rowsSection(part, own);
  const more = [...timelinesOf(own, formulas), ...(experiment.command === "profile" ? profileParts(experiment) : memoryParts([experiment]))];
  return experimentSection(experiment, more);
}

function build(data: ReportData): void {
  document.title = data.title;
  startTheme();
  const experiments = groupRecords(data.files);
  const formulas = new Formulas(experiments.flatMap(({ records }) => records));
  const main = el("main", {});
  const top = el("header", {}, el("h1", {}, data.title), themeButton());
  const partless = data.files.filter(({ part }) => part === null);
  const commands = experiments.filter(({ part }) => part === null);
  const parts = [...new Map(data.files.flatMap(({ part }) => (part === null ? [] : [[part.id, part] as const]))).values()];
  const sections = [
    answersSection(data.answers), overview(data, experiments), ...commands.map((experiment) => experimentSection(experiment)),
    profileSection(commands.find(({ command }) => command === "profile")), memorySection(commands, timelinesOf(partless, formulas)),
    ...parts.map((part) => partSection(part, data.files, experiments, formulas)),
    precisionSection(partless.flatMap((file) => file.rows)),
  ].filter((section) => section !== null);
  const skip = el("a", { class: "skip", href: `#${sections[0]!.id}` }, `Skip to ${sections[0]!.querySelector("h2")!.textContent}`);
  document.body.replaceChildren(skip, top, contents(sections), main, el("footer", {}, data.made_by));
  main.append(...sections);
}

build(JSON.parse(document.getElementById("ridgepoint-data")!.textContent ?? "") as ReportData);
