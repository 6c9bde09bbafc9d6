// ridgepoint man: the manual pages of the program and its commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/commands/command.h"
#include "cli/descriptions/man_page.h"
#include "core/files/file.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

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
    app.add_option("FOLDER", folder_, "where the pages are written")->type_name("FOLDER")->group("Manual");
  }

  int run() override {
    require(!folder_.empty(), "no folder is given: ridgepoint man FOLDER");
    std::error_code problem;
    std::filesystem::create_directories(folder_, problem);
    if (problem) throw Error(fmt::format("cannot make the folder '{}': {}", folder_, problem.message()));
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
