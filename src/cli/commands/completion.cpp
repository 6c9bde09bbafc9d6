// ridgepoint completion: the script that completes command lines in a shell.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/descriptions/command.h"
#include "cli/descriptions/completion.h"
#include "cli/options/output.h"
#include "core/text/nearest.h"

namespace ridgepoint::cli {
namespace {

struct Shell {
  std::string_view name;
  std::string (*script)(std::span<const CommandDescription> commands);
};
constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}, {"json", json_description}};

std::vector<std::string_view> shell_names() {
  std::vector<std::string_view> names;
  for (const Shell& shell : kShells) names.push_back(shell.name);
  return names;
}

class Completion : public Command {
 public:
  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override { return "print the script that completes command lines in a shell"; }
  std::string_view examples() const override {
    return "ridgepoint completion bash > ~/.local/share/bash-completion/completions/ridgepoint\n"
           "ridgepoint completion zsh > ~/.zfunc/_ridgepoint\n"
           "ridgepoint completion fish > ~/.config/fish/completions/ridgepoint.fish\n"
           "ridgepoint completion json > commands.json";
  }
  std::string_view notes() const override {
    return "Commands, options and the names that options take are completed, in lists too. An installed Ridgepoint has "
           "these scripts where the shells look for them: bash needs the package bash-completion, zsh a folder of its "
           "fpath. json prints the commands and their options as data, for other programs.";
  }
  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Completion");
    group.add("SHELL", shell_, "SHELL", "bash, zsh or fish; json for other programs", shell_names(), Takes::one);
  }

  int run() override {
    require(!shell_.empty(), "no shell is given: ridgepoint completion bash, zsh, fish or json");
    for (const Shell& shell : kShells) {
      if (shell.name != shell_) continue;
      print_output(shell.script(describe(all_commands())));
      return kExitOk;
    }
    refuse_name(shell_, "no script for the shell '{}'", shell_names());
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion() { return std::make_unique<Completion>(); }

}  // namespace ridgepoint::cli
