// What a web page calls (web/src/planner). Input and output are files of the page's own file system, so that no pointer
// passes between the languages.
#include <emscripten.h>

#include <string>
#include <vector>

#include "cli/application.h"
#include "cli/terminal/messages.h"
#include "core/files/file.h"
#include "core/text/json.h"
#include "report/report_page.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

}  // namespace
}  // namespace ridgepoint

extern "C" {

// Runs the command line in /words.json, an array of words without the name of the program, and returns its exit code.
EMSCRIPTEN_KEEPALIVE int ridgepoint_run() {
  const auto words = ridgepoint::parse_json(ridgepoint::read_file("/words.json", ridgepoint::kMostBytes));
  std::vector<std::string> arguments = {"ridgepoint"};
  for (const auto& word : words) arguments.push_back(word.get<std::string>());
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ridgepoint::cli::run_application(static_cast<int>(argv.size()), argv.data());
}

// Prints the columns of the timeline in /timeline.csv, thinned to some `most` events, as the report page has them.
EMSCRIPTEN_KEEPALIVE void ridgepoint_print_timeline(int most) {
  const auto columns =
      ridgepoint::tables::timeline_columns(ridgepoint::read_file("/timeline.csv", ridgepoint::kMostBytes));
  ridgepoint::cli::print_output(
      ridgepoint::dump_json(ridgepoint::tables::thin_timeline(columns, static_cast<std::size_t>(most))) + "\n");
}
}
