#include "predict/torch/torch_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "backends/null/null_device.h"
#include "memory/caching_allocator.h"
#include "predict/cards/datasheet.h"
#include "predict/torch/autograd/tensor.h"
#include "predict/torch/functions/workspaces.h"
#include "predict/torch/transformers/causal_lm.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint::torch {
namespace {

constexpr int kMostIterations = 8;
constexpr double kTolerance = 1e-3;  // of a peak that repeats

std::optional<DType> autocast_dtype(Precision precision) {
  const DType dtype = matmul_dtype(precision);
  return is_low(dtype) ? std::optional(dtype) : std::nullopt;
}

std::unique_ptr<Module> make_module(const Training& training, Functions& functions) {
  if (training.model.architecture.family.empty()) return make_transformer(training.model, functions);
  return std::make_unique<CausalLm>(training.model, training.checkpoints, functions);
}

// torch.optim.AdamW and others of optimizer_list.def (torch/optim/*.py).
class OptimizerStep {
 public:
  OptimizerStep(const Training& training, const std::vector<Tensor>& parameters, Kernels& kernels)
      : optimizer_(traits(training.optimizer.kind)),
        states_(states_of(training.optimizer).size()),
        is_fused_(training.fuses_optimizer),
        parameters_(parameters),
        kernels_(kernels) {}

  // The first step allocates the states.
  void operator()() {
    if (state_.empty()) {
      kernels_.enter(MemoryCategory::optimizer_state, Thread::python);
      for (const Tensor& parameter : parameters_) {
        // The fused kernel reads the number of steps on the GPU.
        if (is_fused_ && optimizer_.counts_steps) state_.push_back(kernels_.empty({}, DType::fp32));
        for (std::size_t i = 0; i < states_; ++i) state_.push_back(kernels_.copy(parameter));
      }
    }
    kernels_.enter(MemoryCategory::temporary, Thread::python);
    if (is_fused_) return;
    std::vector<Tensor> temporaries;
    for (int i = 0; i < *optimizer_.torch_temporaries; ++i)
      for (const Tensor& parameter : parameters_) temporaries.push_back(kernels_.copy(parameter));
  }

 private:
  const OptimizerTraits& optimizer_;
  std::size_t states_;
  bool is_fused_;
  const std::vector<Tensor>& parameters_;
  Kernels& kernels_;
  std::vector<Tensor> state_;
};

// torch.amp.GradScaler.
class GradScaler {
 public:
  explicit GradScaler(Functions& functions) : f_(functions) {
    f_.kernels().enter(MemoryCategory::optimizer_state, Thread::python);
    scale_ = f_.kernels().empty({}, DType::fp32);
    growth_tracker_ = f_.kernels().empty({}, DType::int32);
  }

  Tensor scale(const Tensor& loss) { return f_.mul(loss, scale_); }

  // Divides the gradients by the scale in place, after a check that they are finite.
  void step(OptimizerStep& optimizer) {
    f_.kernels().enter(MemoryCategory::temporary, Thread::python);
    const Tensor inverse_scale = f_.kernels().empty({}, DType::fp32);
    const Tensor found_infinity = f_.kernels().empty({}, DType::fp32);
    optimizer();
  }

 private:
  Functions& f_;
  Tensor scale_, growth_tracker_;
};

class Process {
 public:
  Process(const Training& training, Allocator& allocator)
      : training_(training),
        allocator_(allocator),
        kernels_(allocator, training.cublas_workspace_bytes),
        functions_(kernels_, autocast_dtype(training.precision)),
        model_(make_module(training, functions_)),
        optimizer_(training, model_->parameters(), kernels_) {
    if (training.precision == Precision::fp16 && has_loss()) scaler_.emplace(functions_);
    kernels_.enter(MemoryCategory::data, Thread::python);
    tokens_ = kernels_.empty({training.batch, training.model.context}, DType::int64);
    // The families take the tokens as labels.
    if (has_loss() && !is_family()) targets_ = kernels_.copy(tokens_);
  }

  MemoryForecast iterate() {
    found_ = {};
    for (const Tensor& parameter : model_->parameters()) parameter.node->gradient = {};
    Tensor result = forward();
    if (has_loss()) {
      phase(Phase::backward, MemoryCategory::gradient, Thread::autograd);
      run_backward(result, kernels_);
    }
    result = {};
    if (training_.mode == Mode::step) {
      phase(Phase::optimizer, MemoryCategory::temporary, Thread::python);
      scaler_ ? scaler_->step(optimizer_) : optimizer_();
    }
    end_phase();
    return std::move(found_);
  }

 private:
  bool has_loss() const { return runs_backward(training_.mode); }
  bool is_family() const { return !training_.model.architecture.family.empty(); }

  // The loss in modes with backward, otherwise the logits.
  Tensor forward() {
    phase(Phase::forward, MemoryCategory::activation, Thread::python);
    functions_.set_grad_enabled(training_.mode != Mode::forward);
    functions_.enter_autocast();
    Tensor logits;
    Tensor result = has_loss() ? model_->loss(tokens_, targets_, [&](const Tensor& made) { begin_loss(made, logits); })
                               : model_->forward(tokens_);
    functions_.exit_autocast();
    if (training_.keeps_output) {
      if (logits.is_defined()) kept_logits_ = std::move(logits);
      (has_loss() ? kept_loss_ : kept_logits_) = result;
    }
    if (scaler_) result = scaler_->scale(result);
    if (training_.mode != Mode::forward) found_.before_backward_bytes = allocator_.use().allocated_bytes;
    return result;
  }

  // A family returns its logits together with its loss: in `returned`, until then.
  void begin_loss(const Tensor& logits, Tensor& returned) {
    if (training_.keeps_output) (is_family() ? returned : kept_logits_) = logits;
    phase(Phase::loss, MemoryCategory::activation, Thread::python);
  }

  void phase(Phase phase, MemoryCategory category, Thread thread) {
    end_phase();
    kernels_.enter(category, thread);
    found_.phases.push_back({phase});
    allocator_.reset_peak();
  }

  void end_phase() {
    if (found_.phases.empty()) return;
    const MemoryUse use = allocator_.use();
    PhaseMemory& memory = found_.phases.back();
    memory.peak_bytes = use.peak_allocated_bytes;
    for (std::size_t i = 0; i < kMemoryCategoryCount; ++i)
      memory.categories.emplace_back(name(static_cast<MemoryCategory>(i)), allocator_.peak_by_category()[i]);
    MemoryUse& most = found_.use;
    most.allocated_bytes = use.allocated_bytes;
    most.reserved_bytes = use.reserved_bytes;
    most.requested_bytes = use.requested_bytes;
    most.peak_allocated_bytes = std::max(most.peak_allocated_bytes, use.peak_allocated_bytes);
    most.peak_reserved_bytes = std::max(most.peak_reserved_bytes, use.peak_reserved_bytes);
    most.peak_requested_bytes = std::max(most.peak_requested_bytes, use.peak_requested_bytes);
  }

  const Training& training_;
  Allocator& allocator_;
  Kernels kernels_;
  Functions functions_;
  std::unique_ptr<Module> model_;
  OptimizerStep optimizer_;
  std::optional<GradScaler> scaler_;
  Tensor tokens_, targets_;
  Tensor kept_logits_, kept_loss_;
  MemoryForecast found_;
};

}  // namespace

MemoryForecast run(const Training& training, Allocator& allocator, const StopPoint& stop_point) {
  Process process(training, allocator);
  MemoryForecast last;
  for (int i = 0; i < kMostIterations; ++i) {
    if (stop_point) stop_point();
    const auto bytes_before = static_cast<double>(last.use.peak_allocated_bytes);
    last = process.iterate();
    if (std::abs(static_cast<double>(last.use.peak_allocated_bytes) / bytes_before - 1) < kTolerance) break;
  }
  return last;
}

}  // namespace ridgepoint::torch

namespace ridgepoint {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(message, ErrorKind::unsupported);
}

// Without a card that of Hopper.
std::size_t cublas_workspace_bytes(const std::optional<std::string>& card) {
  constexpr int kHopper = 90;
  if (!card) return torch::cublas_workspace_bytes(kHopper);
  const Datasheet* sheet = find_datasheet(*card);
  return torch::cublas_workspace_bytes(sheet == nullptr ? 0 : sheet->compute_capability);
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
  require(checkpoint == Checkpoint::block && config.compile.checkpoint_segment == 1,
          fmt::format("--as {}: transformers checkpoints each layer, which is --checkpoint block; it has no {}",
                      name(config.plan_as),
                      checkpoint == Checkpoint::block ? fmt::format("--segment {}", config.compile.checkpoint_segment)
                                                      : fmt::format("--checkpoint {}", name(checkpoint))));
}

// Experts that torch/transformers/feed_forward.cpp knows.
bool are_known(const Experts& experts) {
  const ExpertRules& rules = experts.rules;
  const ExpertRules known{.scores = rules.scores,
                          .has_correction = rules.has_correction,
                          .groups = rules.groups,
                          .groups_per_token = rules.groups_per_token,
                          .group_has_best_two = rules.group_has_best_two,
                          .scale = rules.scale,
                          .has_router_bias = rules.has_router_bias,
                          .has_biases = rules.has_biases,
                          .limit = rules.limit,
                          .slope = rules.slope,
                          .divisor_term = rules.divisor_term};
  return rules == known && rules.scores != RouterScores::sparse_mixer && !experts.beside_dense;
}

// The part of a model that is not modelled; empty if there is none.
std::string_view unknown_part(const TransformerConfig& model) {
  const Family& family = family_of(model);
  const Architecture& a = model.architecture;
  if (family.code.is_unknown) return "the code of the family";
  if (!are_known(a.experts)) return "its kind of experts";
  if (family.names.head_norms_apart && a.projection_norm == ProjectionNorm::each_head) return "its norms of each head";
  return {};
}

// What transformers computes in a way that is not modelled.
void require_family(const RunConfig& config) {
  const TransformerConfig* model = family_model(config);
  if (model == nullptr) return;
  const Architecture& a = model->architecture;
  const std::string_view unknown = unknown_part(*model);
  require(unknown.empty(),
          fmt::format("--as {}: what {} allocates in transformers is not modelled for {} (model_type {}); --as "
                      "ridgepoint predicts the model, and 'ridgepoint snapshot' reads what PyTorch itself allocated",
                      name(config.plan_as), unknown, model->name, a.family));
  require(a.experts.auxiliary_loss == 0,
          fmt::format("--as {}: the load-balancing loss of transformers is not modelled; give --config-override "
                      "output_router_logits=false",
                      name(config.plan_as)));
  const bool is_sdpa = model->attention == AttentionVariant::flash;
  require(!is_sdpa || !family_of(*model).code.lacks_sdpa,
          fmt::format("--as {}: transformers has no scaled_dot_product_attention for the family {}; give --attention "
                      "softmax, which is its attn_implementation=\"eager\"",
                      name(config.plan_as), a.family));
  constexpr std::int64_t kMultiple = 8;
  require(!is_sdpa || (model->head_size() % kMultiple == 0 && model->full_head_size() % kMultiple == 0),
          fmt::format("--as {}: scaled_dot_product_attention pads heads of {} elements or takes another kernel, which "
                      "is not modelled; give --attention softmax",
                      name(config.plan_as), model->head_size()));
  require(a.layers_without_keys == 0 || config.compile.checkpoint == Checkpoint::none,
          fmt::format("--as {}: gradient checkpointing of layers that share keys and values is not modelled; leave out "
                      "--checkpoint {}",
                      name(config.plan_as), name(config.compile.checkpoint)));
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
          .keeps_output = config.keeps_output,
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
  require(config.compile.master_weights && config.compile.frozen.empty() && !config.compile.lora &&
              config.compile.accumulate == 1 && !config.compile.clip_norm && config.compile.z_loss == 0 &&
              config.compile.optimizer.no_decay.empty() && config.compile.base_weights == BaseWeights::as_is &&
              config.compile.offload == Offload::none,
          fmt::format("--as {}: only a step that trains fp32 parameters on one batch is modelled for PyTorch; --as "
                      "ridgepoint predicts --master-weights, --frozen, --lora, --base-weights, --accumulate, "
                      "--clip-norm, --no-decay, --offload and --z-loss, and 'ridgepoint snapshot' reads what PyTorch "
                      "itself allocated",
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
