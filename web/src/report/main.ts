// Builds the page from its data.
import type { ReportData, ReportFile, StudyPart } from "../records/data";
import { el } from "../elements/dom";
import { answersSection } from "./answers";
import { experimentSection, partRowsSection, precisionSection } from "./experiment";
import { foldButton, openTarget, startFolds } from "../elements/fold";
import { type Experiment, groupRecords, shownRevision } from "../records/grouping";
import { Formulas } from "../records/levels";
import { memoryParts, memorySection } from "./memory";
import { limitsOf } from "../charts/plane";
import { profileParts, profileSection } from "./profile";
import { resultSection, rowsSection } from "./result";
import { startTheme, themeButton } from "../elements/theme";
import { timeline } from "../charts/timeline";
import { trainingSection } from "./training";

function contents(sections: readonly HTMLElement[]): HTMLElement {
  const links = sections.map((section) => el("li", {}, el("a", { href: `#${section.id}` }, section.querySelector("h2")!.textContent)));
  const details = el("details", {}, el("summary", {}, `Contents: ${sections.length} sections`), el("ul", { click: () => { details.open = false; } }, ...links));
  return el("nav", { "aria-label": "Contents" }, details);
}

// Beside the timelines are the limits of memory of the runs that wrote them.
function timelinesOf(files: readonly ReportFile[], formulas: Formulas): HTMLElement[] {
  const limits = limitsOf(files.flatMap(({ records }) => records).filter(({ command }) => command === "memory"));
  return files.filter((file) => file.timeline !== null && file.timeline.time_ms.length > 0)
    .map((file) => timeline(`Memory of ${file.name}, by category`, file.timeline!, formulas, limits));
}

// The section of a part of a study: all that its files have.
function partSection(part: StudyPart, files: readonly ReportFile[], experiments: readonly Experiment[], formulas: Formulas): HTMLElement | null {
  const own = files.filter((file) => file.part?.id === part.id);
  const experiment = experiments.find((each) => each.part?.id === part.id);
  if (experiment === undefined) return partRowsSection(part, own);
  const more = [...timelinesOf(own, formulas), ...(experiment.command === "profile" ? profileParts(experiment) : memoryParts([experiment]))];
  return experimentSection(experiment, more);
}

function build(data: ReportData): void {
  document.title = data.title;
  startFolds();
  startTheme();
  const experiments = groupRecords(data.files);
  const formulas = new Formulas(experiments.flatMap(({ records }) => records));
  const top = el("header", {}, el("h1", {}, data.title), el("div", {}, foldButton(), themeButton()));
  const partless = data.files.filter(({ part }) => part === null);
  const commands = experiments.filter(({ part }) => part === null);
  const parts = [...new Map(data.files.flatMap(({ part }) => (part === null ? [] : [[part.id, part] as const]))).values()];
  const sections = [
    resultSection(data, experiments), answersSection(data.answers), ...commands.map((experiment) => experimentSection(experiment)),
    trainingSection(partless), profileSection(commands.find(({ command }) => command === "profile")), memorySection(commands, timelinesOf(partless, formulas)),
    ...parts.map((part) => partSection(part, data.files, experiments, formulas)),
    precisionSection(partless.flatMap((file) => file.rows)), rowsSection(data, experiments),
  ].filter((section) => section !== null);
  const skip = el("a", { class: "skip", href: `#${sections[0]!.id}` }, `Skip to ${sections[0]!.querySelector("h2")!.textContent}`);
  document.body.replaceChildren(skip, top, contents(sections), el("main", {}, ...sections), el("footer", {}, shownRevision(data.made_by)));
  openTarget();
}

build(JSON.parse(document.getElementById("ridgepoint-data")!.textContent ?? "") as ReportData);
