#include "predict/torch/training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "predict/torch/autograd/module.h"
#include "predict/torch/transformers/causal_lm.h"

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
    if (has_loss() && training.model.architecture.family.empty()) targets_ = kernels_.copy(tokens_);
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
  bool has_loss() const { return training_.mode == Mode::forward_backward || training_.mode == Mode::step; }

  // The loss in modes with backward, otherwise the logits.
  Tensor forward() {
    phase(Phase::forward, MemoryCategory::activation, Thread::python);
    functions_.set_grad_enabled(training_.mode != Mode::forward);
    functions_.enter_autocast();
    Tensor result = has_loss() ? model_->loss(tokens_, targets_, [this] { begin_loss(); }) : model_->forward(tokens_);
    functions_.exit_autocast();
    if (scaler_) result = scaler_->scale(result);
    if (training_.mode != Mode::forward) found_.before_backward_bytes = allocator_.use().allocated_bytes;
    return result;
  }

  void begin_loss() { phase(Phase::loss, MemoryCategory::activation, Thread::python); }

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
