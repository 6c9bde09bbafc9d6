// The commands in the order of the help.
#include "cli/descriptions/command.h"

namespace ridgepoint::cli {

// clang-format off
#define RIDGEPOINT_COMMANDS(EACH) \
  EACH(bench) EACH(compare) EACH(plan) EACH(memory) EACH(attention) EACH(collectives) EACH(devices) EACH(precision) \
  EACH(profile) EACH(study) EACH(report) EACH(snapshot) EACH(trace) EACH(verify) EACH(graph) EACH(models) \
  EACH(published) EACH(train) EACH(sample) EACH(tokenize) EACH(version) EACH(completion) EACH(man)
// clang-format on
#define DECLARE(name) std::unique_ptr<Command> make_##name();
RIDGEPOINT_COMMANDS(DECLARE)
#undef DECLARE

std::span<const MakeCommand> command_makers() {
#define MAKER(name) make_##name,
  static constexpr MakeCommand kMakers[] = {RIDGEPOINT_COMMANDS(MAKER)};
#undef MAKER
  return kMakers;
}

}  // namespace ridgepoint::cli
