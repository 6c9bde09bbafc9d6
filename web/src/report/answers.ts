// The questions of a study with their answers, what they rest on, and what others found.
import type { Answer } from "../records/data";
import { el } from "../elements/dom";
import { fold } from "../elements/fold";
import { counted } from "../elements/format";

const kVerdicts: { [verdict: string]: string } = { confirmed: "good", contradicted: "bad" };
const kOpenEvidence = 4;  // more lines are behind a line that opens them

// No line ends between a figure and its unit, or inside a mark of timing.
export function withUnitsHeld(text: string): string {
  return text.replace(/(\d) (?=(?:%|ms|s|B|KiB|MiB|GiB|Mflop|Gflop|tokens)(?:[\s,;:.()]|$))/g, "$1\u00a0").replaceAll("~ ", "~\u00a0");
}

function evidenceList(answer: Answer): HTMLElement | null {
  const { evidence } = answer;
  if (evidence.length === 0) return null;
  // Lines of one part that follow one another share a link.
  const list = el("ul", {}, ...evidence.map(({ part, text }, place) => el("li", {}, `${withUnitsHeld(text)} `, evidence[place + 1]?.part === part ? null :
    el("a", { href: `#${part}`, "aria-label": `rows of ${part.replaceAll("_", " ")}` }, "rows"))));
  if (evidence.length <= kOpenEvidence) return list;
  return el("details", { class: "evidence" }, el("summary", {}, `The ${evidence.length} figures behind this answer`), list);
}

function elsewhereList({ elsewhere }: Answer): HTMLElement | null {
  if (elsewhere.length === 0) return null;
  return el("ul", { class: "elsewhere" }, ...elsewhere.map(({ source, text, verdict, reason }) =>
    el("li", {}, el("span", { class: `verdict ${kVerdicts[verdict] ?? "plain"}` }, verdict), ` ${withUnitsHeld(text)} `, el("span", { class: "source" }, `(${source})`), ` ${withUnitsHeld(reason)}`)));
}

export function answersSection(answers: readonly Answer[]): HTMLElement | null {
  if (answers.length === 0) return null;
  const topics = [...new Set(answers.map(({ topic }) => topic))];
  const article = (answer: Answer) =>
    el("article", { class: "answer" }, el("h4", {}, answer.question), el("p", {}, withUnitsHeld(answer.sentence)), evidenceList(answer), elsewhereList(answer));
  const parts = topics.map((topic) => {
    const own = answers.filter((answer) => answer.topic === topic);
    return fold("h3", topic, counted(own.length, "answer"), el("div", { class: "answers" }, ...own.map(article)));
  });
  return el("section", { id: "answers" }, el("h2", {}, "Answers"), el("p", {}, `${counted(answers.length, "question")}, answered from the rows of this study alone.`), ...parts);
}
