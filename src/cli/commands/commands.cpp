// The commands in the order of the help.
#include "cli/descriptions/command.h"

namespace ridgepoint::cli {

std::unique_ptr<Command> make_attention();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_collectives();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_devices();
std::unique_ptr<Command> make_graph();
std::unique_ptr<Command> make_man();
std::unique_ptr<Command> make_memory();
std::unique_ptr<Command> make_models();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_precision();
std::unique_ptr<Command> make_profile();
std::unique_ptr<Command> make_published();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_sample();
std::unique_ptr<Command> make_snapshot();
std::unique_ptr<Command> make_study();
std::unique_ptr<Command> make_tokenize();
std::unique_ptr<Command> make_trace();
std::unique_ptr<Command> make_train();
std::unique_ptr<Command> make_verify();
std::unique_ptr<Command> make_version();

std::span<const MakeCommand> command_makers() {
  static constexpr MakeCommand kMakers[] = {
      make_bench,   make_compare,   make_plan,    make_memory,     make_attention, make_collectives,
      make_devices, make_precision, make_profile, make_study,      make_report,    make_snapshot,
      make_trace,   make_verify,    make_graph,   make_models,     make_published, make_train,
      make_sample,  make_tokenize,  make_version, make_completion, make_man};
  return kMakers;
}

}  // namespace ridgepoint::cli
