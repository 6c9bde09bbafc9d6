// The answers and the list of files, as Markdown, and the answers for a terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "core/text/text.h"
#include "core/text/units.h"
#include "core/text/words.h"
#include "inspect/published/published_rows.h"
#include "study/pages/parts.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

// Names from rows must not become HTML or formatting; layers.*.attn has an asterisk.
std::string without_format(const std::string& text) {
  std::string escaped;
  for (const char c : markdown_text(printable(text))) {
    if (c == '*') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// A word of a command line that a shell takes as it is.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-+=.,:/@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !word.empty() && std::ranges::all_of(word, is_plain) ? word : quote_word(word);
}

std::string measured_on(const StudyDocument& document) {
  const Json& configuration = document.configuration;
  double seconds = 0;
  for (const StudyLogEntry& entry : document.log) seconds += entry.seconds;
  const std::string program = without_format(text_at(configuration, "program"));
  if (const std::string card = text_at(configuration, "card"); !card.empty())
    return fmt::format("Planned for {} by ridgepoint {}; nothing ran on a card.", without_format(card), program);
  return fmt::format("Measured on {} (`{}`) by ridgepoint {} in {}{}.", without_format(device_of(document)),
                     printable(text_at(configuration, "device")), program, format_duration(seconds),
                     field(configuration, "quick") == true ? ", with fewer sizes and iterations (`--quick`)" : "");
}

// The command line that makes the study.
std::string study_command(const StudyDocument& document) {
  const Json& configuration = document.configuration;
  std::string text = "ridgepoint study";
  const auto add = [&](const char* option, const char* key) {
    if (const std::string value = text_at(configuration, key); !value.empty())
      text += fmt::format(" --{} {}", option, shell_word(value));
  };
  add("like", "like");
  add("card", "card");
  if (text_at(configuration, "card").empty()) add("device", "device");
  if (const double threads = number_at(configuration, "threads"); threads > 0)
    text += fmt::format(" --threads {:.0f}", threads);
  add("memory-limit", "memory_limit");
  if (const double ranks = number_at(configuration, "ranks"); ranks > 1) text += fmt::format(" --ranks {:.0f}", ranks);
  if (field(configuration, "quick") == true) text += " --quick";
  text += fmt::format(" --limit {:.0f}s", number_at(configuration, "limit_seconds"));
  std::vector<std::string> models;
  for (const Json& model : field(configuration, "models")) {
    if (model.is_string()) models.push_back(model.get<std::string>());
  }
  if (!models.empty()) text += fmt::format(" --model {}", shell_word(fmt::format("{}", fmt::join(models, ","))));
  add("config-override", "config_override");
  add("only", "only");
  add("without", "without");
  return text + fmt::format(" --output {}", shell_word(document.folder));
}

// The files of a part that has rows, as items of a list.
std::string files_of(const StudyDocument& document, const StudyPartPlan& part, const std::vector<StudyFile>& pictures) {
  std::string text = fmt::format(
      "- [records/{0}.jsonl](records/{0}.jsonl): {1} rows, of the command lines below\n- "
      "[tables/{0}.md](tables/{0}.md), "
      "[tables/{0}.csv](tables/{0}.csv): the rows as tables\n",
      name(part.part), document.rows.at(part.part).size());
  for (const std::string& picture : pictures_of(document, part, pictures))
    text += fmt::format("- [{0}]({0})\n", picture);
  for (const std::string& file : timeline_files(part)) {
    if (file.starts_with("timelines/") && StudyFolder(document.folder).has(file))
      text += fmt::format("- [{0}]({0}): every event of the memory, of a command line below\n", file);
  }
  return text;
}

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
    text += item(fmt::format("Published ({}): {} {}. {}", study_words(claim.source), claim.text,
                             capitalised(verdict_words(claim.verdict)), claim.reason),
                 columns);
  }
  return text;
}

}  // namespace

std::vector<std::string> failures_of(const StudyDocument& document) {
  std::vector<std::string> failures;
  for (std::size_t i = 0; i < document.log.size(); ++i) {
    const StudyLogEntry& entry = document.log[i];
    const auto is_same = [&](const StudyLogEntry& other) {
      return other.part == entry.part && other.command == entry.command;
    };
    const bool was_tried_again = std::ranges::any_of(std::span(document.log).subspan(i + 1), is_same);
    if (entry.exit_code == 0 || was_tried_again) continue;
    failures.push_back(fmt::format("{}, command {}: exit code {}: {}", name(entry.part), entry.command + 1,
                                   entry.exit_code, entry.problem));
  }
  return failures;
}

std::string_view verdict_words(StudyClaim::Verdict verdict) {
  switch (verdict) {
    case StudyClaim::Verdict::confirmed: return "confirmed";
    case StudyClaim::Verdict::contradicted: return "contradicted";
    case StudyClaim::Verdict::not_comparable: break;
  }
  return "not comparable";
}

std::string device_of(const StudyDocument& document) {
  for (const auto& [part, rows] : document.rows) {
    if (!has_records(rows)) continue;
    if (std::string device = text_at(rows.front(), "device.name"); !device.empty()) return device;
  }
  return text_at(document.configuration, "device");
}

std::string command_text(const StudyCommand& command, const std::string& folder) {
  std::string text = "ridgepoint";
  for (std::string word : command.arguments) {
    for (std::size_t at = 0; (at = word.find("{folder}", at)) != std::string::npos; at += folder.size())
      word.replace(at, 8, folder);
    text += " " + shell_word(word);
  }
  return text;
}

std::string answers_markdown(const StudyDocument& document) {
  std::string text = "# The answers of this study\n\n" + measured_on(document) +
                     " Every sentence is computed from the rows of this study.\n";
  std::string topic;
  for (const StudyAnswer& answer : document.answers) {
    if (answer.topic != topic) text += fmt::format("\n## {}\n", topic = answer.topic);
    text += fmt::format("\n### {}\n\n{}\n", answer.question, without_format(answer.sentence));
    if (!answer.evidence.empty()) text += "\n";
    for (const StudyEvidence& evidence : answer.evidence)
      text += fmt::format("- {} ([{}](records/{}.jsonl))\n", without_format(evidence.text), name(evidence.part),
                          name(evidence.part));
    if (answer.elsewhere.empty()) continue;
    text += "\nPublished studies:\n\n";
    for (const StudyClaim& claim : answer.elsewhere) {
      const std::string_view words = study_words(claim.source);
      text += fmt::format("- {0}{1}{0}: {2} **{3}**: {4}\n", words == claim.source ? "`" : "", words,
                          without_format(claim.text), verdict_words(claim.verdict), without_format(claim.reason));
    }
  }
  return text;
}

std::string study_readme(const StudyDocument& document, const std::vector<StudyFile>& pictures) {
  std::string text = fmt::format(
      "# A study by Ridgepoint\n\n{}\n\n    {}\n\n- [report.html](report.html): everything on one page, for a browser\n"
      "- [answers.md](answers.md): the questions with their answers, evidence, and what others found\n"
      "- [study.json](study.json): the options, and every command line with its predicted time\n"
      "- [log.jsonl](log.jsonl): how long each command line took, and how it ended\n\n"
      "Each part has the command lines that measured or planned it, so that every figure can be made again. This "
      "writes the page, answers, tables and pictures again from the rows, but not the pictures of timelines:\n\n    "
      "ridgepoint study --no-run --output {}\n",
      measured_on(document), study_command(document), shell_word(document.folder));
  for (const StudyPartPlan& part : document.parts) {
    const bool has_rows = document.rows.contains(part.part);
    text += fmt::format("\n## {}\n\n{}\n", without_format(part.title),
                        has_rows ? files_of(document, part, pictures) : "It has no rows.\n");
    for (const StudyCommand& command : part.commands) text += "    " + command_text(command, document.folder) + "\n";
  }
  const std::vector<std::string> failures = failures_of(document);
  if (!failures.empty()) text += "\n## What failed\n\n";
  for (const std::string& failure : failures) text += fmt::format("- {}\n", without_format(failure));
  return text;
}

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

}  // namespace ridgepoint::tables
