#include "predict/torch/torch_forecast.h"

#include <fmt/format.h>

#include "backends/null/null_device.h"
#include "memory/caching_allocator.h"
#include "predict/cards/datasheet.h"
#include "predict/torch/training.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(message, ErrorKind::unsupported);
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

// The model, if it is one of docs/models.md.
const TransformerConfig* family_model(const RunConfig& config) {
  const TransformerConfig* model = config.workload->transformer();
  return model == nullptr || model->architecture.family.empty() ? nullptr : model;
}

void require_checkpoints(const RunConfig& config) {
  const Checkpoint checkpoint = config.compile.checkpoint;
  if (checkpoint == Checkpoint::none) return;
  require(family_model(config) != nullptr,
          fmt::format("--as {}: activation checkpointing is not modelled for the presets, whose script has none; leave "
                      "out --checkpoint {}",
                      name(config.plan_as), name(checkpoint)));
  require(checkpoint == Checkpoint::block,
          fmt::format("--as {}: transformers checkpoints whole layers, which is --checkpoint block; it has no "
                      "--checkpoint {}",
                      name(config.plan_as), name(checkpoint)));
}

// What transformers computes in a way that is not modelled.
void require_family(const RunConfig& config) {
  const TransformerConfig* model = family_model(config);
  if (model == nullptr) return;
  const Architecture& a = model->architecture;
  require(a.experts.auxiliary_loss == 0,
          fmt::format("--as {}: the load-balancing loss of transformers is not modelled; give --config-override "
                      "output_router_logits=false",
                      name(config.plan_as)));
  constexpr std::int64_t kMultiple = 8, kWidest = 256;
  const bool is_sdpa = model->attention == AttentionVariant::flash;
  require(!is_sdpa || (model->head_size() % kMultiple == 0 && model->head_size() <= kWidest),
          fmt::format("--as {}: scaled_dot_product_attention pads heads of {} elements or takes another kernel, which "
                      "is not modelled; give --attention softmax",
                      name(config.plan_as), model->head_size()));
}

torch::Training training_of(const RunConfig& config, const std::optional<std::string>& card) {
  const WorkloadDescription workload = config.workload->describe();
  const WorkloadDescription::Model& model = workload.model;
  const TransformerConfig* transformer = config.workload->transformer();
  TransformerConfig sizes = {model.name, model.vocab,  workload.context, model.d_model,
                             model.d_ff, model.layers, model.heads,      *workload.attention};
  return {.model = transformer == nullptr ? sizes : *transformer,
          .batch = workload.batch,
          .mode = config.compile.mode,
          .precision = config.compile.precision,
          .optimizer = config.compile.optimizer,
          .fuses_optimizer = config.plan_as == PlanAs::torch_fused,
          .checkpoints = config.compile.checkpoint == Checkpoint::block,
          .cublas_workspace_bytes = cublas_workspace_bytes(card)};
}

}  // namespace

void require_torch_has_it(const RunConfig& config) {
  require(
      config.compile.level == Compile::off,
      fmt::format("--as {}: PyTorch's eager mode does not compile; for --compile {} give --as ridgepoint, or measure "
                  "bench --peers torch:compile on the card",
                  name(config.plan_as), name(config.compile.level)));
  require(config.allocator.value_or(AllocatorKind::caching) == AllocatorKind::caching,
          fmt::format("--as {}: PyTorch allocates by its caching allocator; leave out --allocator {}",
                      name(config.plan_as), name(config.allocator.value_or(AllocatorKind::caching))));
  require(traits(config.compile.optimizer.kind).torch_temporaries.has_value(),
          fmt::format("--as {}: only AdamW is modelled for PyTorch; leave out --optimizer {}", name(config.plan_as),
                      name(config.compile.optimizer.kind)));
  require(
      config.compile.master_weights && config.compile.frozen.empty() && !config.compile.lora &&
          config.compile.accumulate == 1,
      fmt::format("--as {}: only a step that trains fp32 parameters on one batch is modelled for PyTorch; --as "
                  "ridgepoint predicts --master-weights, --frozen, --lora and --accumulate, and 'ridgepoint snapshot' "
                  "reads what PyTorch itself allocated",
                  name(config.plan_as)));
  require(config.compile.precision != Precision::fp8,
          fmt::format("--as {}: PyTorch has no autocast to fp8; use --dtype bf16", name(config.plan_as)));
  require(!config.compile.parallel.is_parallel(),
          fmt::format("--as {}: only one rank is modelled for PyTorch; --as ridgepoint predicts --parallel and --shard",
                      name(config.plan_as)));
  const WorkloadDescription workload = config.workload->describe();
  require(workload.model.vocab > 0 && workload.attention.has_value(),
          fmt::format("--as {} needs the Transformer; the workload '{}' has no model in PyTorch", name(config.plan_as),
                      workload.model.name));
  require_checkpoints(config);
  const AttentionVariant attention = *workload.attention;
  require(attention != AttentionVariant::weights && attention != AttentionVariant::recompute,
          fmt::format(
              "--as {}: PyTorch has no attention that saves what '{}' does; it has naive, composite, softmax and flash "
              "(scaled_dot_product_attention)",
              name(config.plan_as), name(attention)));
  require_family(config);
}

MemoryForecast forecast_torch(const RunConfig& config, const std::optional<std::string>& card,
                              std::optional<std::size_t> memory_bytes, const StopPoint& stop_point) {
  require_torch_has_it(config);
  const std::shared_ptr<Device> memory = make_null_device(open_device("reference"), memory_bytes);
  CachingAllocator allocator(*memory, memory_bytes);
  return torch::run(training_of(config, card), allocator, stop_point);
}

}  // namespace ridgepoint
