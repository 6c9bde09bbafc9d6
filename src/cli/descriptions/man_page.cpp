#include "cli/descriptions/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "core/build_info.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

// Text as roff prints it: a plain hyphen or quotation mark would become a typographic one, a backslash would begin an
// escape, and a dot or an apostrophe at the start of a line a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = escaped.empty() || escaped.back() == '\n';
    if (text.substr(i).starts_with(views::kNoBreak)) {
      escaped += "\\~";
      i += views::kNoBreak.size() - 1;
      continue;
    }
    switch (text[i]) {
      case '\\':
        escaped += "\\(rs";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '"':
        escaped += "\\(dq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      case '.':
        escaped += starts_line ? "\\&." : ".";
        break;
      default:
        escaped += text[i];
    }
  }
  return escaped;
}

// Line breaks of the help are spaces here.
std::string paragraph(std::string_view text) {
  std::string line(text);
  for (char& c : line) c = c == '\n' ? ' ' : c;
  return roff(line) + "\n";
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string heading(std::string_view title) {
  std::string upper(title);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  // Left-aligned and without hyphenation: a name of an option must not be divided.
  return fmt::format(".TH \"{}\" \"1\" \"\" \"ridgepoint {}\" \"User Commands\"\n.nh\n.ad l\n", roff(upper),
                     roff(version()));
}

std::string term(const OptionDescription& option) {
  if (option.is_positional()) return italic(option.value);
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  const std::string value = option.value.empty() ? "" : " " + italic(option.value);
  return fmt::format("{}{}", fmt::join(names, ", "), option.value_is_optional ? " [" + value.substr(1) + "]" : value);
}

std::string options(const CommandDescription& command) {
  std::string text;
  std::vector<std::string> groups;
  for (const OptionDescription& option : command.options) {
    bool is_known = false;
    for (const std::string& group : groups) is_known = is_known || group == option.group;
    if (!is_known) groups.push_back(option.group);
  }
  for (const std::string& group : groups) {
    text += fmt::format(".SS \"{}\"\n", roff(group));
    for (const OptionDescription& option : command.options) {
      if (option.group == group) text += ".TP\n" + term(option) + "\n" + paragraph(option.help);
    }
  }
  return text;
}

std::string examples(const CommandDescription& command) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string_view line : views::lines_of(command.examples)) text += roff(line) + "\n";
  return text + ".fi\n";
}

constexpr std::string_view kExitStatus =
    ".SH \"EXIT STATUS\"\n"
    ".TP\n0\nThe command did what it was asked for. A row without enough memory is a result too.\n"
    ".TP\n1\nSomething failed; one line on standard error says what.\n"
    ".TP\n2\nThe command line is wrong; one line on standard error says how to mend it.\n"
    ".TP\n129, 130, 143\nSIGHUP, Ctrl\\-C or SIGTERM interrupted the command; the rows that were finished are "
    "written.\n";

}  // namespace

std::string program_man_page(std::span<const CommandDescription> commands) {
  std::string text = heading("ridgepoint") +
                     ".SH NAME\n"
                     "ridgepoint \\- show where the time and the memory of a Transformer training step go\n"
                     ".SH SYNOPSIS\n" +
                     bold("ridgepoint") + " " + italic("COMMAND") + " [" + italic("OPTIONS") + "]\n.br\n" +
                     bold("ridgepoint") + " " + italic("COMMAND") + " " + bold("--help") + "\n.br\n" +
                     bold("ridgepoint --version") +
                     "\n.SH DESCRIPTION\n"
                     "Ridgepoint runs, measures and predicts training steps of Transformers on processors and on "
                     "NVIDIA GPUs,\nand says how far each part is from what the hardware can do.\n"
                     ".SH COMMANDS\n";
  for (const CommandDescription& command : commands) {
    text += ".TP\n" + bold(command.name) + "\n" + paragraph(command.summary);
  }
  text += kExitStatus;
  text += ".SH \"SEE ALSO\"\n";
  for (const CommandDescription& command : commands) {
    text += fmt::format(".BR {} (1){}\n", roff("ridgepoint-" + command.name), &command == &commands.back() ? "" : ",");
  }
  return text;
}

std::string command_man_page(const CommandDescription& command) {
  const std::string name = "ridgepoint-" + command.name;
  std::string text = heading(name) + ".SH NAME\n" + roff(name) + " \\- " + paragraph(command.summary) +
                     ".SH SYNOPSIS\n" + bold("ridgepoint " + command.name);
  for (const OptionDescription& option : command.options) {
    if (!option.is_positional()) continue;
    text += option.value_is_optional ? " [" + italic(option.value) + "]" : " " + italic(option.value);
  }
  text += " [" + italic("OPTIONS") + "]\n.SH OPTIONS\n" + options(command) + examples(command);
  if (!command.notes.empty()) text += ".SH NOTES\n" + paragraph(command.notes);
  text += kExitStatus;
  return text + ".SH \"SEE ALSO\"\n.BR ridgepoint (1)\n";
}

}  // namespace ridgepoint::cli
