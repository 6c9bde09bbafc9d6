// The questions of a study with their answers, what they rest on, and what others found.
import type { Answer } from "./data";
import { el } from "./dom";
import { counted, listed } from "./format";

const kOpenEvidence = 4;  // more lines are behind a line that opens them

// No line ends between a figure and its unit.
export function withUnitsHeld(text: string): string {
  return text.replace(/(\d) (?=(?:%|ms|s|B|KiB|MiB|GiB|Mflop|Gflop|tokens)(?:[\s,;:.()]|$))/g, "$1\u00a0");
}

function evidenceList(answer: Answer): HTMLElement | null {
  const { evidence } = answer;
  if (evidence.length === 0) return null;
  // Lines of one part that follow one another share a link.
  const list = el("ul", {}, ...evidence.map(({ part, text }, place) => el("li", {}, `${withUnitsHeld(text)} `, evidence[place + 1]?.part === part ? null :
    el("a", { href: `#${part}`, "aria-label": `rows of ${part.replaceAll("_", " ")}` }, "rows"))));
  if (evidence.length <= kOpenEvidence) return list;
  const details = el("details", {}, el("summary", {}, `The ${evidence.length} figures behind this answer`), list);
  addEventListener("beforeprint", () => { details.open = true; });
  return details;
}

function elsewhereList({ elsewhere }: Answer): HTMLElement | null {
  if (elsewhere.length === 0) return null;
  return el("ul", { class: "elsewhere" }, ...elsewhere.map(({ source, text, verdict, reason }) =>
    el("li", {}, el("span", { class: `verdict ${verdict.replace(" ", "-")}` }, verdict), ` ${withUnitsHeld(text)} `, el("span", { class: "source" }, `(${source})`), ` ${withUnitsHeld(reason)}`)));
}

// "24 questions. Of 12 published statements 8 are confirmed, 3 are contradicted and 1 is not comparable."
export function summaryOf(answers: readonly Answer[]): string {
  const verdicts = answers.flatMap(({ elsewhere }) => elsewhere.map(({ verdict }) => verdict));
  const counts = ["confirmed", "contradicted", "not comparable"].map((verdict) => [verdict, verdicts.filter((each) => each === verdict).length] as const)
    .filter(([, count]) => count > 0).map(([verdict, count]) => `${count} ${count === 1 ? "is" : "are"} ${verdict}`);
  const questions = `${counted(answers.length, "question")}, answered from the rows of this study alone.`;
  return counts.length === 0 ? questions : `${questions} Of ${counted(verdicts.length, "published statement")} ${listed(counts)}.`;
}

export function answersSection(answers: readonly Answer[]): HTMLElement | null {
  if (answers.length === 0) return null;
  const topics = [...new Set(answers.map(({ topic }) => topic))];
  const article = (answer: Answer) =>
    el("article", { class: "answer" }, el("h4", {}, answer.question), el("p", {}, withUnitsHeld(answer.sentence)), evidenceList(answer), elsewhereList(answer));
  const parts = topics.flatMap((topic) =>
    [el("h3", {}, topic), el("div", { class: "answers" }, ...answers.filter((answer) => answer.topic === topic).map(article))]);
  return el("section", { id: "answers" }, el("h2", {}, "Answers"), el("p", {}, summaryOf(answers)), ...parts);
}
