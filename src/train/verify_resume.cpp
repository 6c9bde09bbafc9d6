#include "train/verify_resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "core/files/temporary_folder.h"
#include "core/same_bits.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::train {
namespace {

// The results of a run.
struct Trace {
  std::map<std::int64_t, StepReport> steps;
  std::map<std::string, HostTensor> tensors;
};

// Every parameter and state. All ranks read them together, in one order.
void read_tensors(Program& program, std::map<std::string, HostTensor>& tensors) {
  const Graph& graph = program.graph();
  for (const Role role : {Role::parameter, Role::state}) {
    for (const NodeId id : graph.inputs(role)) {
      for (const StoredTensor& tensor : stored_tensors(graph, graph.node(id)))
        tensors.insert_or_assign(tensor.name, program.read_input(tensor.name));
    }
  }
}

bool run(const TrainingOptions& options, std::int64_t last, const StepWatcher& watch,
         const std::function<bool()>& is_asked_to_stop, Trace& trace) {
  TrainingEvents events;
  events.watch = watch;
  events.on_step = [&](const StepReport& report) { trace.steps.insert_or_assign(report.step, report); };
  // The schedule is for the whole run, so the first half ends by request.
  bool is_half = false;
  std::int64_t done = 0;
  events.after = [&](Program& program, std::int64_t step) {
    done = step;
    if (step == options.schedule.iterations) read_tensors(program, trace.tensors);
  };
  events.is_asked_to_stop = [&] {
    is_half = done == last;
    return is_half || (is_asked_to_stop && is_asked_to_stop());
  };
  const std::optional<TrainingSummary> summary = train(options, events);
  return summary && (summary->ending == Ending::finished || is_half);
}

std::string difference(const Trace& a, const Trace& b) {
  for (const auto& [step, report] : a.steps) {
    const auto found = b.steps.find(step);
    if (found == b.steps.end()) return fmt::format("step {} is missing", step);
    const auto differ = [step = step](std::string_view what, double whole, double interrupted) {
      return fmt::format("the {} of step {} is {:.9g} without an interruption and {:.9g} with one", what, step, whole,
                         interrupted);
    };
    if (!have_same_bits(report.loss, found->second.loss)) return differ("loss", report.loss, found->second.loss);
    const double norm = report.gradient_norm.value_or(0);
    const double other = found->second.gradient_norm.value_or(0);
    if (!have_same_bits(norm, other)) return differ("gradient norm", norm, other);
    const double noise = report.noise_scale.value_or(0);
    const double after = found->second.noise_scale.value_or(0);
    if (!have_same_bits(noise, after)) return differ("noise scale", noise, after);
  }
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end() || found->second.data != tensor.data) return fmt::format("'{}' differs", name);
  }
  return "";
}

// All ranks use the folder of the first rank.
std::filesystem::path folder_of_all(const TemporaryFolder& mine, ProcessGroup* group) {
  const std::string path = mine.path().string();
  return group == nullptr ? path : group->all_gather(path, "a folder").front();
}

}  // namespace

std::optional<ResumeVerdict> verify_resume(TrainingOptions options, const StepWatcher& watch,
                                           const std::function<bool()>& is_asked_to_stop) {
  const std::int64_t last = options.schedule.iterations;
  Trace whole, interrupted;
  options.saving.reset();
  if (!run(options, last, watch, is_asked_to_stop, whole)) return std::nullopt;
  ProcessGroup* const group = options.config.group.get();
  const TemporaryFolder temporary;
  options.saving = Saving{folder_of_all(temporary, group) / "run", 0, {}};
  if (!run(options, last / 2, watch, is_asked_to_stop, interrupted)) return std::nullopt;
  options.resumed = find_newest(options.saving->folder, group);
  if (!options.resumed) throw Error("the checkpoint in the middle was not written");
  if (!run(options, last, watch, is_asked_to_stop, interrupted)) return std::nullopt;
  if (group != nullptr) group->barrier();
  const std::string found = problem_of_ranks(group, difference(whole, interrupted), "whether runs are equal");
  if (!found.empty()) return ResumeVerdict{false, "A run that goes on from a checkpoint differs: " + found + "."};
  return ResumeVerdict{true,
                       fmt::format("A run that goes on from step {} is equal to the bit: the losses of all {} steps "
                                   "and {} tensors after them.",
                                   last / 2, last, whole.tensors.size())};
}

}  // namespace ridgepoint::train
