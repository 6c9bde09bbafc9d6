#include "ridgepoint/runtime/program.h"

#include "ops/rule.h"
#include "runtime/execution/plan_memory.h"
#include "runtime/program/program_state.h"

namespace ridgepoint {
namespace {

std::unique_ptr<OffloadFile> make_file(const std::string& folder, std::size_t bytes, const Device& device) {
  if (bytes == 0 || device.kind() == "null") return nullptr;
  return std::make_unique<OffloadFile>(folder, bytes,
                                       "; this run cannot go on, because its states are incomplete: start it again, "
                                       "from a checkpoint if it has one");
}

}  // namespace

Program::Implementation::Implementation(std::shared_ptr<const ProgramPlan::Implementation> planned,
                                        const std::shared_ptr<Device>& on, const ProgramOptions& options)
    : source(std::move(planned)),
      device(on != nullptr ? on : source->device),
      communicator(options.communicator),
      graph(source->graph),
      plan(source->plan),
      file(make_file(source->offload_folder, plan.disk.bytes, *device)),
      kernels(make_kernels(graph, plan, *device, options.communicator.get(), options.stop_point, file.get())),
      lifetimes(lifetimes_of(plan, workspace_bytes_of(kernels))),
      allocator(make_allocator(source->allocator, graph, plan, lifetimes, *device, options.memory_trace)),
      executor(graph, plan, kernels, *device, *allocator, source->captures, options.stop_point,
               options.communicator.get(), file.get()) {
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < executor.launches(); ++i) nodes.push_back(executor.launch_node(i));
  marker = device->make_range_marker(graph, nodes);
  executor.set_observer(marker.get());
  write_initial_values();
}

Program::Program(const ProgramPlan& plan, std::shared_ptr<Device> device, const ProgramOptions& options)
    : implementation_(std::make_unique<Implementation>(plan.implementation_, std::move(device), options)) {}
Program::Program(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options)
    : Program(ProgramPlan(std::move(graph), std::move(device), options), nullptr, options) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

void Program::run() { implementation_->executor.run(); }
void Program::synchronize() { implementation_->synchronize(); }

void Program::time_phases() { implementation_->executor.time_phases(); }
PhaseTimes Program::phase_times() const { return implementation_->executor.phase_times(); }
bool Program::is_captured() const { return implementation_->executor.is_captured(); }
const std::string& Program::capture_problem() const { return implementation_->executor.capture_problem(); }
const std::vector<std::string>& Program::unfused_bodies() const { return implementation_->executor.unfused(); }

MemoryUse Program::memory_use() const { return implementation_->allocator->use(); }
std::size_t Program::host_memory_bytes() const { return implementation_->plan.host.bytes; }
std::size_t Program::disk_bytes() const {
  return implementation_->file != nullptr ? implementation_->file->bytes() : implementation_->plan.disk.bytes;
}
const std::string& Program::offload_folder() const { return implementation_->source->offload_folder; }
std::uint64_t Program::memory_layout_hash() const { return implementation_->allocator->layout_hash(); }
void Program::reset_peak_memory() {
  implementation_->allocator->reset_peak();
  implementation_->executor.count_next_run();
}
std::vector<PhaseMemory> Program::memory_by_phase() const {
  std::vector<PhaseMemory> phases;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    const Executor::PhasePeak& peak = implementation_->executor.phase_peaks()[phase];
    if (!peak.has_launches) continue;
    PhaseMemory& memory = phases.emplace_back(PhaseMemory{static_cast<Phase>(phase), peak.bytes});
    for (std::size_t i = 0; i < kMemoryCategoryCount; ++i)
      memory.categories.emplace_back(name(static_cast<MemoryCategory>(i)), peak.categories[i]);
  }
  return phases;
}

std::size_t Program::liveness_lower_bound_bytes() const { return liveness_lower_bound(implementation_->lifetimes); }
std::vector<std::size_t> Program::live_bytes_by_launch() const {
  return live_bytes_by_step(implementation_->lifetimes);
}
std::size_t Program::before_backward_bytes() const { return implementation_->executor.before_backward_bytes(); }
std::int64_t Program::flops_per_run() const { return flops_of(implementation_->graph); }
std::size_t Program::launches_per_run() const { return implementation_->executor.launches(); }
std::vector<LaunchInfo> Program::launches() const {
  const Executor& executor = implementation_->executor;
  std::vector<LaunchInfo> launches;
  launches.reserve(executor.launches());
  for (std::size_t i = 0; i < executor.launches(); ++i)
    launches.push_back({executor.launch_node(i), std::string(executor.kernel_name(i))});
  return launches;
}

void Program::observe(LaunchObserver* observer) {
  implementation_->executor.set_observer(observer != nullptr ? observer : implementation_->marker.get());
}

const Graph& Program::graph() const { return implementation_->graph; }
const ParallelOptions& Program::parallel() const { return implementation_->source->parallel; }
Device& Program::device() { return *implementation_->device; }

}  // namespace ridgepoint
