#include "runtime/executor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/warning.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// The place of an error, as part of its message.
std::string place_of(const Graph& graph, const Node& node) {
  if (node.op == Op::input) {
    return "for the " + std::string(name(input_role(node))) + " '" + input_name(node) + "'";
  }
  const std::string& scope = graph.scope_name(node);
  return "in " + std::string(name(node.phase)) + " at " + std::string(name(node.op)) +
         (scope.empty() ? "" : " of " + scope);
}

}  // namespace

Executor::Executor(const Graph& graph, const ExecutionPlan& plan, Device& device, Allocator& allocator, bool captures,
                   const StopPoint& stop_point)
    : graph_(graph),
      plan_(plan),
      device_(device),
      allocator_(allocator),
      base_(plan.buffers.size()),
      captures_(captures) {
  resolve(stop_point);
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
  release_all(true);
}

void Executor::resolve(const StopPoint& stop_point) {
  std::size_t widest = 0;
  for (const PlanStep& planned : plan_.steps) {
    if (stop_point) stop_point();
    const auto layouts_of = [](const std::vector<Operand>& operands) {
      std::vector<TensorLayout> layouts;
      for (const Operand& operand : operands) layouts.push_back(operand.layout);
      return layouts;
    };
    const std::vector<TensorLayout> inputs = layouts_of(planned.inputs);
    const std::vector<TensorLayout> outputs = layouts_of(planned.outputs);
    kernels_.push_back(device_.make_kernel({graph_, graph_.node(planned.node), inputs, outputs}));

    Step step{};
    step.kernel = kernels_.back().get();
    step.node = planned.node.id;
    step.workspace_bytes = step.kernel->workspace_bytes();
    step.first_operand = static_cast<std::uint32_t>(operands_.size());
    step.input_count = static_cast<std::uint32_t>(inputs.size());
    step.output_count = static_cast<std::uint32_t>(outputs.size());
    for (const Operand& operand : planned.inputs) operands_.push_back({operand.buffer, operand.offset_bytes});
    for (const Operand& operand : planned.outputs) operands_.push_back({operand.buffer, operand.offset_bytes});
    step.first_allocate = static_cast<std::uint32_t>(buffer_lists_.size());
    buffer_lists_.insert(buffer_lists_.end(), planned.allocate.begin(), planned.allocate.end());
    step.first_release = static_cast<std::uint32_t>(buffer_lists_.size());
    buffer_lists_.insert(buffer_lists_.end(), planned.release.begin(), planned.release.end());
    step.end_release = static_cast<std::uint32_t>(buffer_lists_.size());
    steps_.push_back(step);
    widest = std::max(widest, inputs.size() + outputs.size());
  }
  arguments_.resize(widest);
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    if (plan_.buffers[id].output) outputs_.push_back(id);
  }
}

void Executor::allocate_persistent(const StopPoint& stop_point) {
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& buffer = plan_.buffers[id];
    if (!buffer.persistent) continue;
    if (stop_point) stop_point();
    base_[id] = allocate(buffer.bytes, buffer.category, graph_.producer(buffer.value).id);
    device_.fill_zero(base_[id], buffer.bytes);
  }
}

std::byte* Executor::allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node) {
  try {
    return static_cast<std::byte*>(allocator_.allocate(bytes, category, node));
  } catch (const OutOfMemory& error) {
    MemoryShortage shortage = error.shortage();
    shortage.place = place_of(graph_, graph_.node(NodeId{node}));
    throw OutOfMemory(std::move(shortage));
  }
}

void Executor::run() {
  device_.while_current([this] { run_once(); });
}

void Executor::run_once() {
  if (captured_ != nullptr && observer_ == nullptr) return captured_->run();
  captured_.reset();  // this run moves the outputs
  for (const BufferId id : outputs_) release(id);
  before_backward_bytes_ = 0;
  if (observer_ != nullptr) observer_->run_begins();
  try {
    if (!run_captured()) run_steps();
  } catch (...) {
    if (observer_ != nullptr) observer_->run_ends();
    device_.synchronize();
    release_all(false);
    throw;
  }
  if (observer_ != nullptr) observer_->run_ends();
  has_run_ = true;
}

bool Executor::run_captured() {
  if (!captures_ || !has_run_ || observer_ != nullptr) return false;
  try {
    captured_ = device_.capture([this] { run_steps(); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    warn_once("capture", std::string(error.what()) + "; its launches are made one by one");
    release_all(false);
  }
  captures_ = captured_ != nullptr;
  if (captured_ != nullptr) captured_->run();
  return captures_;
}

void Executor::run_steps() {
  const std::size_t boundary = plan_.backward_begin.value_or(SIZE_MAX);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (i == boundary) before_backward_bytes_ = allocator_.use().allocated_bytes;
    run_step(steps_[i]);
  }
}

void Executor::run_step(const Step& step) {
  for (std::uint32_t i = step.first_allocate; i < step.first_release; ++i) {
    const BufferId id = buffer_lists_[i];
    const Buffer& buffer = plan_.buffers[id];
    base_[id] = allocate(buffer.bytes, buffer.category, step.node);
  }
  void* workspace = nullptr;
  if (step.workspace_bytes > 0) workspace = allocate(step.workspace_bytes, MemoryCategory::workspace, step.node);
  const std::uint32_t count = step.input_count + step.output_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const OperandSlot& slot = operands_[step.first_operand + i];
    arguments_[i] = slot.buffer == kNoBuffer ? nullptr : base_[slot.buffer] + slot.offset_bytes;
  }
  try {
    launch(step, workspace);
  } catch (...) {
    if (workspace != nullptr) allocator_.free(workspace);
    throw;
  }
  // The device may still use it, but launches are in order, so the next user of the memory runs later.
  if (workspace != nullptr) allocator_.free(workspace);
  for (std::uint32_t i = step.first_release; i < step.end_release; ++i) release(buffer_lists_[i]);
}

void Executor::launch(const Step& step, void* workspace) {
  const LaunchArguments arguments{arguments_.data(), arguments_.data() + step.input_count, workspace};
  if (observer_ == nullptr) [[likely]]
    return step.kernel->launch(arguments);
  const auto index = static_cast<std::uint32_t>(&step - steps_.data());
  observer_->before_launch(index);
  step.kernel->launch(arguments);
  observer_->after_launch(index);
}

void Executor::release(BufferId buffer) {
  if (base_[buffer] == nullptr) return;
  allocator_.free(base_[buffer]);
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
