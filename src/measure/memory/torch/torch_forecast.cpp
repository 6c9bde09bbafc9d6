#include "measure/memory/torch/torch_forecast.h"

#include <fmt/format.h>

#include "backends/null/null_device.h"
#include "measure/machine/datasheet.h"
#include "measure/memory/torch/training.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(message, ErrorKind::usage);
}

// getChosenWorkspaceSize() of aten/src/ATen/cuda/CublasHandlePool.cpp: more for Hopper and data-centre Blackwell.
std::size_t cublas_workspace_bytes(const std::optional<std::string>& card) {
  constexpr int kHopper = 90, kDataCentreBlackwell = 100;
  constexpr std::size_t kLargeBytes = 4096 * 8 * 1024;
  constexpr std::size_t kOtherBytes = 4096 * 2 * 1024 + 16 * 8 * 1024;
  if (!card) return kLargeBytes;
  const Datasheet* sheet = find_datasheet(*card);
  const int capability = sheet == nullptr ? 0 : sheet->compute_capability;
  return capability == kHopper || capability == kDataCentreBlackwell ? kLargeBytes : kOtherBytes;
}

torch::Training training_of(const RunConfig& config, const std::optional<std::string>& card) {
  const WorkloadDescription workload = config.workload->describe();
  const WorkloadDescription::Model& model = workload.model;
  return {.model = {model.name, model.vocab, workload.context, model.d_model, model.d_ff, model.layers, model.heads,
                    *workload.attention},
          .batch = workload.batch,
          .mode = config.compile.mode,
          .precision = config.compile.precision,
          .fused_adamw = config.plan_as == PlanAs::torch_fused,
          .cublas_workspace_bytes = cublas_workspace_bytes(card)};
}

}  // namespace

void require_torch_has_it(const RunConfig& config) {
  require(config.compile.level == Compile::off,
          fmt::format("--as {}: PyTorch's eager mode does not compile; leave out --compile {}", name(config.plan_as),
                      name(config.compile.level)));
  require(config.compile.checkpoint == Checkpoint::none,
          fmt::format("--as {}: activation checkpointing is not modelled for PyTorch; leave out --checkpoint {}",
                      name(config.plan_as), name(config.compile.checkpoint)));
  require(config.allocator.value_or(AllocatorKind::caching) == AllocatorKind::caching,
          fmt::format("--as {}: PyTorch allocates by its caching allocator; leave out --allocator {}",
                      name(config.plan_as), name(config.allocator.value_or(AllocatorKind::caching))));
  const WorkloadDescription workload = config.workload->describe();
  require(workload.model.vocab > 0 && workload.attention.has_value(),
          fmt::format("--as {} needs the Transformer; the workload '{}' has no model in PyTorch", name(config.plan_as),
                      workload.model.name));
  const AttentionVariant attention = *workload.attention;
  require(attention != AttentionVariant::weights && attention != AttentionVariant::recompute,
          fmt::format(
              "--as {}: PyTorch has no attention that saves what '{}' does; it has naive, composite, softmax and flash "
              "(scaled_dot_product_attention)",
              name(config.plan_as), name(attention)));
}

MemoryForecast forecast_torch(const RunConfig& config, const std::optional<std::string>& card,
                              std::optional<std::size_t> memory_bytes, const StopPoint& stop_point) {
  require_torch_has_it(config);
  const std::shared_ptr<Device> memory = make_null_device(open_device("reference"), memory_bytes);
  CachingAllocator allocator(*memory, memory_bytes);
  return torch::run(training_of(config, card), allocator, stop_point);
}

}  // namespace ridgepoint
