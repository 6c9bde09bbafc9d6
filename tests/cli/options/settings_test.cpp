// Every row of settings.def and measures.def is where users of the commands look.

#include <algorithm>
#include <map>
#include <string>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "record/columns.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

std::string without_breaks(std::string text) {
  std::string words;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\n';
    if (!is_blank || !words.ends_with(' ')) words += is_blank ? ' ' : c;
  }
  return words;
}

// What a command that runs models and one that runs calls of attention say together, of the options and columns.
std::string all_helps() {
  std::string text;
  for (const char* command : {"bench", "plan", "memory", "attention"})
    text += without_breaks(run_program({command, "--help"}).output);
  return text;
}

std::string documented() {
  return documented_fields([](const Setting&) { return std::string(); });
}

TEST(Settings, with_an_option_are_in_help_completion_and_manual) {
  const std::string help = all_helps();
  std::string manual;
  const TemporaryFolder folder;
  ASSERT_EQ(run_program({"man", folder.path().string()}).exit_code, 0);
  for (const char* command : {"bench", "plan", "attention"})
    manual += read_file(folder / ("ridgepoint-" + std::string(command) + ".1"), 1 << 20);
  std::map<std::string, std::string> scripts;
  for (const char* shell : {"bash", "zsh", "fish"}) scripts[shell] = run_program({"completion", shell}).output;
  for (const Setting& setting : record_settings()) {
    if (setting.option.help.empty()) continue;
    const std::string name(setting.option.name());
    SCOPED_TRACE(name);
    EXPECT_EQ(&setting_of_option(name), &setting) << "two rows have the option";
    EXPECT_THAT(help, HasSubstr("--" + name + " "));
    const std::string words =
        without_breaks(std::string(setting.option.help.substr(0, setting.option.help.find("{}"))));
    EXPECT_THAT(help, HasSubstr(words));
    std::string in_manual;
    for (const char c : "--" + name) in_manual += c == '-' ? std::string("\\-") : std::string(1, c);
    EXPECT_THAT(manual, HasSubstr("\\fB" + in_manual + "\\fR"));
    EXPECT_THAT(scripts["bash"], HasSubstr(" --" + name));
    EXPECT_THAT(scripts["zsh"], HasSubstr("--" + name));
    EXPECT_THAT(scripts["fish"], HasSubstr(" -l " + name));
    if (!setting.path.empty()) {
      EXPECT_THAT(documented(), HasSubstr("`--" + name + "`"));
    }
    for (const std::string_view value : setting.accepted()) {
      if (name == "workload" && value == "mine") continue;  // another test of this process registers it
      if (name != "model") {
        EXPECT_THAT(help, HasSubstr(std::string(value)));
      }
      EXPECT_THAT(scripts["bash"], HasSubstr("'" + std::string(value) + "'"));
    }
  }
}

TEST(Settings, of_several_keys_are_explained_in_the_documentation) {
  const std::string_view help = setting_of_option("parallel").option.help;
  EXPECT_LE(help.size(), 160U) << "two lines beside the names of options";
  EXPECT_THAT(std::string(help), HasSubstr("docs/parallel.md"));
}

TEST(Figures, with_a_name_are_columns_in_help_and_completion) {
  const std::string help = all_helps(), script = run_program({"completion", "bash"}).output;
  for (const Measure& measure : record_measures()) {
    if (measure.name.empty()) continue;
    EXPECT_THAT(help, HasSubstr(std::string(measure.name)));
    EXPECT_THAT(script, HasSubstr("'" + std::string(measure.name) + "'"));
    if (!measure.about.empty()) {
      EXPECT_THAT(documented(), HasSubstr("`" + std::string(measure.name) + "`"));
    }
  }
}

}  // namespace
}  // namespace ridgepoint
