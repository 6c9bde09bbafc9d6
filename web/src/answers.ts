// The questions of a study with their answers, what they rest on, and what others found.
import type { Answer } from "./data";
import { el } from "./dom";

const kOpenEvidence = 4;  // more lines are behind a line that opens them

function evidenceList(answer: Answer): HTMLElement | null {
  const { evidence } = answer;
  if (evidence.length === 0) return null;
  const list = el("ul", {}, ...evidence.map(({ part, text }) => el("li", {}, `${text} `, el("a", { href: `#${part}` }, "rows"))));
  if (evidence.length <= kOpenEvidence) return list;
  return el("details", {}, el("summary", {}, `The ${evidence.length} figures behind this answer`), list);
}

function elsewhereList({ elsewhere }: Answer): HTMLElement | null {
  if (elsewhere.length === 0) return null;
  return el("ul", { class: "elsewhere" }, ...elsewhere.map(({ source, text, verdict, reason }) =>
    el("li", {}, el("span", { class: `verdict ${verdict.replace(" ", "-")}` }, verdict), ` ${text} (${source}) ${reason}`)));
}

export function answersSection(answers: readonly Answer[]): HTMLElement | null {
  if (answers.length === 0) return null;
  const topics = [...new Set(answers.map(({ topic }) => topic))];
  const parts = topics.flatMap((topic) => [el("h3", {}, topic), ...answers.filter((answer) => answer.topic === topic).map((answer) =>
    el("article", { class: "answer" }, el("h4", {}, answer.question), el("p", {}, answer.sentence), evidenceList(answer), elsewhereList(answer)))]);
  return el("section", { id: "answers" }, el("h2", {}, "Answers"), ...parts);
}
