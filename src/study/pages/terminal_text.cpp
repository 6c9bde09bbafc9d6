// The answers for a terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/text/text.h"
#include "study/pages/parts.h"
#include "tables/table/wrap.h"

namespace ridgepoint::views {
namespace {

constexpr std::size_t kMostEvidence = 6;  // lines in a terminal; answers.md has all
constexpr std::size_t kWidestText = 100;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// No line ends between a figure and its unit.
std::string with_units_held(std::string_view text) {
  constexpr std::array<std::string_view, 10> kUnits = {"%",   "ms",  "s",     "B",     "KiB",
                                                       "MiB", "GiB", "Mflop", "Gflop", "tokens"};
  std::string held;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i + 1);
    const std::string_view word = rest.substr(0, rest.find_first_of(" ,;:.()"));
    const bool is_unit =
        text[i] == ' ' && i > 0 && is_digit(text[i - 1]) && std::ranges::find(kUnits, word) != kUnits.end();
    held += is_unit ? kNoBreak : text.substr(i, 1);
  }
  return held;
}

// Indented by `indent`; lines after the first, by `more` in addition.
std::string indented(std::string_view text, std::size_t indent, std::size_t columns, std::size_t more = 0) {
  const std::string lines = wrap(with_units_held(text), columns - indent, more);
  std::string result;
  for (const std::string_view line : lines_of(lines)) result += fmt::format("{:{}}{}\n", "", indent, line);
  return result;
}

std::string item(std::string_view text, std::size_t columns) {
  return indented(fmt::format("- {}", printable(text)), 4, columns, 2);
}

std::string capitalised(std::string_view words) {
  std::string text(words);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string answer_text(const StudyAnswer& answer, std::size_t columns) {
  std::string text = indented(answer.question, 0, columns) + indented(printable(answer.sentence), 2, columns);
  const std::size_t shown = std::min(answer.evidence.size(), kMostEvidence);
  for (std::size_t i = 0; i < shown; ++i) text += item(answer.evidence[i].text, columns);
  if (const std::size_t more = answer.evidence.size() - shown; more > 0) text += fmt::format("    and {} more\n", more);
  for (const StudyClaim& claim : answer.elsewhere) {
    text += item(fmt::format("Published ({}): {} {}. {}", claim.source, claim.text,
                             capitalised(verdict_words(claim.verdict)), claim.reason),
                 columns);
  }
  return text;
}

}  // namespace

std::string study_text(const StudyDocument& document, std::size_t width) {
  const std::size_t columns = std::min(width, kWidestText);
  std::string text, topic;
  for (const StudyAnswer& answer : document.answers) {
    if (answer.topic != topic) {
      topic = answer.topic;
      text += fmt::format("\n{}\n{:=<{}}\n", topic, "", topic.size());
    }
    text += "\n" + answer_text(answer, columns);
  }
  text += "\n" +
          wrap(fmt::format("'{0}' has the rows, tables, pictures and answers; open {0}/report.html in a browser.",
                           document.folder),
               columns) +
          "\n";
  const std::vector<std::string> failures = failures_of(document);
  if (!failures.empty()) text += fmt::format("\nThese command lines failed:\n  {}\n", fmt::join(failures, "\n  "));
  return text;
}

}  // namespace ridgepoint::views
