// The commands and their options as data, read from what the parser of the command line is given. The help, man pages
// and completion in shells say the same because all derive from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"

namespace ridgepoint::cli {

struct OptionDescription {
  std::vector<std::string> names;  // "-h", "--help"; empty for an argument that stands without a name
  std::string value;               // the word for its value, "NAME"; empty for a flag
  bool value_is_optional = false;  // of an argument without a name: the argument itself
  bool is_repeated = false;        // whether it may be given several times
  std::string help;
  std::string group;
  Choices choices;

  bool is_positional() const { return names.empty(); }
  bool takes_file() const { return value == "FILE" || value == "FILES" || value == "FOLDER"; }
  // The first clause of the help, for the one line that shells have for it.
  std::string summary() const;
};

struct CommandDescription {
  std::string name;
  std::string summary;
  std::string examples;  // one command line a line
  std::string notes;
  std::vector<OptionDescription> options;  // in the order of the help, those that it hides left out
};

// Whether a positional argument, or the value of an option, may be left out: the argument has a default, or the option
// takes no value too.
bool can_be_left_out(const CLI::Option& option);

// Whether an option, or a positional argument, may be given several times.
bool may_be_repeated(const CLI::Option& option);

// Gives the parser the options of a command, --help included.
void prepare(CLI::App& app, Command& command);

std::vector<CommandDescription> describe(const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace ridgepoint::cli
