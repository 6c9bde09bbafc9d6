// ridgepoint man: the manual pages of the program and its commands, in roff with the macros of man(7).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/descriptions/command.h"
#include "cli/descriptions/description.h"
#include "core/build_info.h"
#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

// Text as roff prints it: a plain hyphen or quotation mark would become a typographic one, a backslash would begin an
// escape, and a dot or an apostrophe at the start of a line a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = escaped.empty() || escaped.back() == '\n';
    if (text.substr(i).starts_with(tables::kNoBreak)) {
      escaped += "\\~";
      i += tables::kNoBreak.size() - 1;
      continue;
    }
    switch (text[i]) {
      case '\\': escaped += "\\(rs"; break;
      case '-': escaped += "\\-"; break;
      case '\'': escaped += "\\(aq"; break;
      case '"': escaped += "\\(dq"; break;
      case '`': escaped += "\\(ga"; break;
      case '^': escaped += "\\(ha"; break;
      case '~': escaped += "\\(ti"; break;
      case '.': escaped += starts_line ? "\\&." : "."; break;
      default: escaped += text[i];
    }
  }
  return escaped;
}

// Line breaks of the help are spaces here.
std::string man_paragraph(std::string_view text) {
  std::string line(text);
  for (char& c : line) c = c == '\n' ? ' ' : c;
  return roff(line) + "\n";
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string man_heading(std::string_view title) {
  std::string upper(title);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  // Left-aligned and without hyphenation: a name of an option must not be divided.
  return fmt::format(".TH \"{}\" \"1\" \"\" \"ridgepoint {}\" \"User Commands\"\n.nh\n.ad l\n", roff(upper),
                     roff(version()));
}

std::string man_term(const OptionDescription& option) {
  if (option.is_positional()) return italic(option.value);
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  const std::string value = option.value.empty() ? "" : " " + italic(option.value);
  return fmt::format("{}{}", fmt::join(names, ", "), option.value_is_optional ? " [" + value.substr(1) + "]" : value);
}

std::string man_options(const CommandDescription& command) {
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
      if (option.group == group) text += ".TP\n" + man_term(option) + "\n" + man_paragraph(option.help);
    }
  }
  return text;
}

std::string man_examples(const CommandDescription& command) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string_view line : tables::lines_of(command.examples)) text += roff(line) + "\n";
  return text + ".fi\n";
}

constexpr std::string_view kExitStatus =
    ".SH \"EXIT STATUS\"\n"
    ".TP\n0\nThe command did what it was asked for. A row without enough memory is a result too.\n"
    ".TP\n1\nSomething failed; one line on standard error says what.\n"
    ".TP\n2\nThe command line is wrong; one line on standard error says how to mend it.\n"
    ".TP\n4\nNo row fits into memory, or would fit.\n"
    ".TP\n129, 130, 143\nSIGHUP, Ctrl\\-C or SIGTERM interrupted the command; the rows that were finished are "
    "written.\n";

// ridgepoint(1): what the program is, and its commands.
std::string program_man_page(std::span<const CommandDescription> commands) {
  std::string text = man_heading("ridgepoint") +
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
    text += ".TP\n" + bold(command.name) + "\n" + man_paragraph(command.summary);
  }
  text += kExitStatus;
  text += ".SH \"SEE ALSO\"\n";
  for (const CommandDescription& command : commands) {
    text += fmt::format(".BR {} (1){}\n", roff("ridgepoint-" + command.name), &command == &commands.back() ? "" : ",");
  }
  return text;
}

// ridgepoint-COMMAND(1): what `ridgepoint COMMAND --help` prints.
std::string command_man_page(const CommandDescription& command) {
  const std::string name = "ridgepoint-" + command.name;
  std::string text = man_heading(name) + ".SH NAME\n" + roff(name) + " \\- " + man_paragraph(command.summary) +
                     ".SH SYNOPSIS\n" + bold("ridgepoint " + command.name);
  for (const OptionDescription& option : command.options) {
    if (!option.is_positional()) continue;
    text += option.value_is_optional ? " [" + italic(option.value) + "]" : " " + italic(option.value);
  }
  text += " [" + italic("OPTIONS") + "]\n.SH OPTIONS\n" + man_options(command) + man_examples(command);
  if (!command.notes.empty()) text += ".SH NOTES\n" + man_paragraph(command.notes);
  text += kExitStatus;
  return text + ".SH \"SEE ALSO\"\n.BR ridgepoint (1)\n";
}

class Man : public Command {
 public:
  std::string_view name() const override { return "man"; }
  std::string_view summary() const override { return "write the manual pages of the program and its commands"; }
  std::string_view examples() const override { return "ridgepoint man ~/.local/share/man/man1"; }
  std::string_view notes() const override {
    return "The folder is made if it is missing, and gets ridgepoint.1 and a ridgepoint-COMMAND.1 for each command. "
           "They "
           "say what --help says. An installed Ridgepoint has them: man ridgepoint-bench.";
  }
  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Manual");
    group.add("FOLDER", folder_, "FOLDER", "where the pages are written");
  }

  int run() override {
    require(!folder_.empty(), "no folder is given: ridgepoint man FOLDER");
    std::error_code problem;
    std::filesystem::create_directories(folder_, problem);
    if (problem) throw_error("cannot make the folder '{}': {}", folder_, problem.message());
    const std::vector<CommandDescription> commands = describe(all_commands());
    const std::filesystem::path folder(folder_);
    write_file(folder / "ridgepoint.1", program_man_page(commands));
    for (const CommandDescription& command : commands) {
      write_file(folder / fmt::format("ridgepoint-{}.1", command.name), command_man_page(command));
    }
    return kExitOk;
  }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<Command> make_man() { return std::make_unique<Man>(); }

}  // namespace ridgepoint::cli
