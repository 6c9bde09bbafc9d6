#include "runtime/execution/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/first_call_clock.h"
#include "core/text/units.h"
#include "core/warning.h"
#include "ops/collectives.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/offload_file.h"
#include "runtime/execution/plan_memory.h"

namespace ridgepoint {
namespace {

std::vector<TensorLayout> layouts_of(const std::vector<Operand>& operands) {
  std::vector<TensorLayout> layouts;
  for (const Operand& operand : operands) layouts.push_back(operand.layout);
  return layouts;
}

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, Device& device, Communicator* communicator) {
  if (op_class(spec.node.op) != OpClass::collective || device.kind() == "null") return device.make_kernel(spec);
  if (communicator != nullptr) return communicator->make_kernel(spec);
  throw Error("graph '" + spec.graph.name + "' has " + std::string(name(spec.node.op)) + " over " +
                  std::to_string(spec.node.attributes.get<std::int64_t>("ranks")) +
                  " ranks, and this process has no communicator",
              ErrorKind::usage);
}

// The file, where a transfer copies from or to what lies in it.
OffloadFile* file_of(const ExecutionPlan& plan, const PlanStep& step, OffloadFile* file) {
  const auto lies_in_file = [&](const Operand& operand) {
    return operand.buffer != kNoBuffer && plan.buffers[operand.buffer].on_disk;
  };
  return std::ranges::any_of(step.inputs, lies_in_file) || std::ranges::any_of(step.outputs, lies_in_file) ? file
                                                                                                           : nullptr;
}

constexpr const char* kNotFollowed = "an observer cannot follow a captured run";

}  // namespace

StepSpec::StepSpec(const Graph& graph, const PlanStep& step)
    : graph_(graph), node_(step.node), inputs_(layouts_of(step.inputs)), outputs_(layouts_of(step.outputs)) {}

Kernels make_kernels(const Graph& graph, const ExecutionPlan& plan, Device& device, Communicator* communicator,
                     const StopPoint& stop_point, OffloadFile* file) {
  Kernels kernels;
  for (const PlanStep& step : plan.steps) {
    if (stop_point) stop_point();
    const StepSpec of_step(graph, step);
    KernelSpec spec = of_step.spec();
    spec.file = file_of(plan, step, file);
    kernels.push_back(make_kernel(spec, device, communicator));
  }
  return kernels;
}

std::vector<std::size_t> workspace_bytes_of(const Kernels& kernels) {
  std::vector<std::size_t> bytes;
  for (const std::unique_ptr<Kernel>& kernel : kernels) bytes.push_back(kernel->workspace_bytes());
  return bytes;
}

Executor::Executor(const Graph& graph, const ExecutionPlan& plan, const Kernels& kernels, Device& device,
                   Allocator& allocator, bool captures, const StopPoint& stop_point, Communicator* communicator,
                   OffloadFile* file)
    : graph_(graph),
      plan_(plan),
      device_(device),
      allocator_(allocator),
      base_(plan.buffers.size()),
      communicator_(communicator),
      file_(file),
      captures_(captures) {
  resolve(kernels);
  try {
    allocate_persistent(stop_point);
  } catch (...) {
    release_all(true);
    throw;
  }
}

Executor::~Executor() {
  try {
    device_.synchronize();
  } catch (const Error&) {  // the caller got this error from an earlier synchronize()
  }
  shared_memory_.reset();
  for (BufferId id = 0; id < bound_.size(); ++id) bind(id, nullptr);
  if (own_workspace_ != nullptr) device_.release_memory(own_workspace_, own_workspace_bytes_);
  release_all(true);
}

void Executor::resolve(const Kernels& kernels) {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& planned = plan_.steps[i];
    Step step{};
    step.kernel = kernels[i].get();
    step.node = planned.node.id;
    step.phase = planned.phase;
    step.workspace_bytes = step.kernel->workspace_bytes();
    step.first_operand = static_cast<std::uint32_t>(operands_.size());
    step.input_count = static_cast<std::uint32_t>(planned.inputs.size());
    step.output_count = static_cast<std::uint32_t>(planned.outputs.size());
    for (const Operand& operand : planned.inputs) operands_.push_back({operand.buffer, operand.offset_bytes});
    for (const Operand& operand : planned.outputs) operands_.push_back({operand.buffer, operand.offset_bytes});
    step.first_allocate = static_cast<std::uint32_t>(buffer_lists_.size());
    buffer_lists_.insert(buffer_lists_.end(), planned.allocate.begin(), planned.allocate.end());
    step.first_release = static_cast<std::uint32_t>(buffer_lists_.size());
    buffer_lists_.insert(buffer_lists_.end(), planned.release.begin(), planned.release.end());
    step.end_release = static_cast<std::uint32_t>(buffer_lists_.size());
    step.first_wait = static_cast<std::uint32_t>(waits_.size());
    for (const std::size_t collective : planned.waits) waits_.push_back(kernels[collective].get());
    step.end_wait = static_cast<std::uint32_t>(waits_.size());
    for (const std::size_t collective : planned.own_waits) waits_.push_back(kernels[collective].get());
    step.end_own_wait = static_cast<std::uint32_t>(waits_.size());
    if (runs_beside(graph_.node(planned.node))) beside_.push_back(step.kernel);
    steps_.push_back(step);
  }
  arguments_.resize(operands_.size());
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    if (plan_.buffers[id].output) outputs_.push_back(id);
  }
}

void Executor::allocate_on_host() {
  const Placement& host = plan_.host;
  if (host.bytes == 0) return;
  host_memory_ = device_.allocate_host(host.bytes);
  if (host_memory_ == nullptr) {
    throw Error("the system gives no " + format_bytes(host.bytes) +
                    " of the host's memory for what --offload keeps there, locked for copies to " + device_.name() +
                    "; free some, or offload less",
                ErrorKind::unsupported);
  }
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (!buffer.on_host) continue;
    base_[id] = buffer.on_disk ? OffloadFile::address_of(plan_.disk.offset_bytes[id])
                               : host_memory_.get() + host.offset_bytes[id];
  }
  if (file_ != nullptr) file_->set_staging(host_memory_);
}

void Executor::allocate_persistent(const StopPoint& stop_point) {
  const InStage in_stage(FirstCallStage::memory);
  allocate_on_host();
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (!buffer.persistent || buffer.on_host) continue;
    if (stop_point) stop_point();
    base_[id] = allocate(buffer.bytes, buffer.category, graph_.producer(buffer.value).id, id);
    device_.fill_zero(base_[id], buffer.bytes);  // also what lies behind the elements of a parameter in a last part
  }
}

std::byte* Executor::allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node, std::size_t index) {
  try {
    return static_cast<std::byte*>(allocator_.allocate(bytes, category, node, static_cast<std::uint32_t>(index)));
  } catch (const OutOfMemory& error) {
    MemoryShortage shortage = error.shortage();
    shortage.place = place_of(graph_, graph_.node(NodeId{node}));
    throw OutOfMemory(std::move(shortage));
  }
}

void Executor::bind(BufferId buffer, std::byte* memory) {
  if (bound_.empty()) bound_.resize(base_.size());
  Bound& bound = bound_[buffer];
  if (bound.memory == memory) return;
  if (!plan_.buffers[buffer].persistent) {
    release(buffer);
  } else {
    if (bound.memory == nullptr) bound.own = base_[buffer];
    base_[buffer] = memory != nullptr ? memory : bound.own;
  }
  bound.memory = memory;
  count_next_run();
}

void Executor::run() {
  device_.while_current([this] { run_once(); });
}

void Executor::count_next_run() {
  captured_.reset();
  has_addresses_ = false;
}

bool Executor::repeats_addresses() const {
  return has_addresses_ && observer_ == nullptr && allocator_.can_skip_requests();
}

void Executor::prepare_kernels() {
  std::string first_reason;
  std::size_t own_bytes = 0;
  for (Step& step : steps_) {
    step.kernel->prepare();
    if (step.kernel->unfused_because().empty()) continue;
    const std::size_t bytes = step.kernel->workspace_bytes();
    step.has_own_workspace = bytes > step.workspace_bytes;
    if (step.has_own_workspace) own_bytes = std::max(own_bytes, bytes);
    const std::string name(operation_name(graph_.node(NodeId{step.node})));
    if (unfused_.empty()) first_reason = step.kernel->unfused_because();
    if (std::ranges::find(unfused_, name) == unfused_.end()) unfused_.push_back(name);
  }
  if (unfused_.empty()) return;
  reserve_own_workspace(own_bytes);
  const std::string others = unfused_.size() == 1 ? "" : " (and " + std::to_string(unfused_.size() - 1) + " more)";
  warn_once("unfused", unfused_.front() + others + " runs op by op, because it does not compile: " +
                           first_reason.substr(0, first_reason.find('\n')));
}

// The plan has no place for what these kernels need.
void Executor::reserve_own_workspace(std::size_t bytes) {
  if (bytes == 0) return;
  own_workspace_ = static_cast<std::byte*>(device_.allocate_memory(bytes));
  own_workspace_bytes_ = bytes;
  if (own_workspace_ != nullptr) return;
  MemoryShortage shortage;
  shortage.device = device_.kind() == "null" ? "the null device, planned for " + device_.name() : device_.name();
  shortage.place = "for fused nodes that run op by op";
  shortage.requested_bytes = shortage.segment_bytes = bytes;
  shortage.capacity_bytes = device_.total_memory_bytes();
  shortage.free_bytes = device_.free_memory_bytes().value_or(0);
  throw OutOfMemory(std::move(shortage));
}

// All ranks come here in their first run.
void Executor::share_memory() {
  if (communicator_ == nullptr || std::exchange(has_asked_to_share_, true)) return;
  const FixedMemory memory = allocator_.fixed_memory();
  if (memory.bytes > 0) shared_memory_ = communicator_->share_memory(memory);
}

void Executor::run_once() {
  if (file_ != nullptr) file_->require_working();
  const ObservedRun observed(observer_);
  if (captured_ != nullptr) return repeat();
  try {
    if (!has_run_) prepare_kernels();
    share_memory();
    if (!run_captured()) run_steps();
  } catch (...) {
    captured_.reset();  // its memory is released
    // The first error says more than those of the waits, of which each is tried: copies may still use the memory.
    const auto attempt = [](const auto& wait) {
      try {
        wait();
      } catch (const Error&) {
      }
    };
    for (Kernel* kernel : beside_) attempt([&] { kernel->wait(); });
    attempt([&] { device_.synchronize(); });
    release_all(false);
    has_addresses_ = false;
    throw;
  }
  has_run_ = true;
}

// Ranks must launch a collective alike, captured or not, as NCCL asks.
bool Executor::run_captured() {
  if (!captures_ || !is_followed_ || !has_run_) return false;
  std::string problem, failed;
  std::exception_ptr failure;
  try {
    problem = try_capture();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    failed = error.what();
  }
  // What fails on one rank ends the run on all of them: the others would wait for its part of the first collective.
  if (communicator_ != nullptr) failed = communicator_->problem_of_ranks(failed, "whether a capture fails");
  if (failure) std::rethrow_exception(failure);
  if (!failed.empty()) throw Error("another rank: " + failed);
  if (communicator_ != nullptr) problem = communicator_->problem_of_ranks(problem, "whether a run is captured");
  if (captured_ != nullptr && problem.empty()) {
    repeat();
    return true;
  }
  captured_.reset();
  is_followed_ = problem != kNotFollowed;
  captures_ = !is_followed_;
  if (problem.empty() || !is_followed_) return false;
  capture_problem_ = problem;
  warn_once("capture", capture_problem_ + "; its launches are made one by one");
  release_all(false);
  has_addresses_ = false;
  return false;
}

// Makes captured_, which stays null where the device captures nothing. Returns why it cannot be made, or nothing.
std::string Executor::try_capture() {
  if (observer_ != nullptr && !observer_->capture_begins()) return kNotFollowed;
  try {
    captured_ = capture();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return error.what();
  }
  return "";
}

// After capture_begins() of the observer.
std::unique_ptr<CapturedLaunches> Executor::capture() {
  std::unique_ptr<CapturedLaunches> captured;
  try {
    captured = device_.capture([this] { run_steps(); });
  } catch (...) {
    if (observer_ != nullptr) observer_->capture_ends();
    throw;
  }
  if (observer_ != nullptr) observer_->capture_ends();
  return captured;
}

void Executor::repeat() {
  if (observer_ != nullptr) observer_->before_launch(kNoLaunch);
  captured_->run();
  if (observer_ != nullptr) observer_->after_launch(kNoLaunch);
}

void Executor::run_steps() {
  if (phase_timer_ != nullptr) phase_timer_->begin();
  if (repeats_addresses()) {
    for (const Step& step : steps_) launch(step);
  } else {
    allocate_and_run_steps();
  }
  wait_for_all();
  if (phase_timer_ != nullptr) phase_timer_->end();
}

void Executor::wait_for_all() {
  for (Kernel* kernel : beside_) kernel->wait();
}

void Executor::time_phases() {
  if (phase_timer_ != nullptr) return;
  std::vector<Phase> phases;
  for (const Step& step : steps_) phases.push_back(step.phase);
  phase_timer_ = std::make_unique<PhaseTimer>(device_, phases);
  captured_.reset();  // it has no marks
}

void Executor::allocate_and_run_steps() {
  for (const BufferId id : outputs_) release(id);
  before_backward_bytes_ = 0;
  phase_peaks_ = {};
  const std::size_t boundary = plan_.backward_begin.value_or(SIZE_MAX);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (i == boundary) before_backward_bytes_ = allocator_.use().allocated_bytes;
    run_step(steps_[i]);
  }
  has_addresses_ = true;
}

void Executor::count_peak(Phase phase) {
  PhasePeak& peak = phase_peaks_[static_cast<std::size_t>(phase)];
  peak.has_launches = true;
  const std::size_t bytes = allocator_.use().allocated_bytes;
  if (bytes <= peak.bytes) return;
  peak.bytes = bytes;
  peak.categories = allocator_.allocated_by_category();
}

void Executor::run_step(Step& step) {
  for (std::uint32_t i = step.first_allocate; i < step.first_release; ++i) {
    const BufferId id = buffer_lists_[i];
    const Buffer& buffer = plan_.buffers[id];
    base_[id] = is_bound(id) ? bound_[id].memory : allocate(buffer.bytes, buffer.category, step.node, id);
  }
  if (step.has_own_workspace) {
    step.workspace = own_workspace_;
  } else if (step.workspace_bytes > 0) {
    const auto index = static_cast<std::size_t>(&step - steps_.data());
    step.workspace =
        allocate(step.workspace_bytes, MemoryCategory::workspace, step.node, workspace_index(plan_, index));
  }
  count_peak(step.phase);
  const std::uint32_t end = step.first_operand + step.input_count + step.output_count;
  for (std::uint32_t i = step.first_operand; i < end; ++i) {
    const OperandSlot& slot = operands_[i];
    arguments_[i] = slot.buffer == kNoBuffer ? nullptr : base_[slot.buffer] + slot.offset_bytes;
  }
  try {
    launch(step);
  } catch (...) {
    free_workspace(step);
    throw;
  }
  // The device may still use it, but launches are in order, so the next user of the memory runs later.
  free_workspace(step);
  for (std::uint32_t i = step.first_release; i < step.end_release; ++i) release(buffer_lists_[i]);
}

void Executor::free_workspace(const Step& step) {
  if (step.workspace != nullptr && !step.has_own_workspace) allocator_.free(step.workspace);
}

void Executor::launch(const Step& step) {
  void* const* inputs = arguments_.data() + step.first_operand;
  const std::span<Kernel* const> after(waits_.data() + step.end_wait, step.end_own_wait - step.end_wait);
  const LaunchArguments arguments{inputs, inputs + step.input_count, step.workspace, after};
  const auto index = static_cast<std::uint32_t>(&step - steps_.data());
  if (phase_timer_ != nullptr) [[unlikely]]
    phase_timer_->before_launch(index);  // what the launch waits for counts to its phase
  for (std::uint32_t i = step.first_wait; i < step.end_wait; ++i) waits_[i]->wait();
  if (observer_ != nullptr) observer_->before_launch(index);
  step.kernel->launch(arguments);
  if (observer_ != nullptr) observer_->after_launch(index);
}

void Executor::release(BufferId buffer) {
  if (base_[buffer] == nullptr) return;
  if (!is_bound(buffer) && !plan_.buffers[buffer].on_host) allocator_.free(base_[buffer]);
  base_[buffer] = nullptr;
}

void Executor::release_all(bool persistent) {
  for (BufferId id = 0; id < base_.size(); ++id) {
    if (persistent || !plan_.buffers[id].persistent) release(id);
  }
}

void* Executor::address(const Operand& operand) const {
  if (operand.buffer == kNoBuffer || base_[operand.buffer] == nullptr) return nullptr;
  return base_[operand.buffer] + operand.offset_bytes;
}

}  // namespace ridgepoint
