#include "predict/torch/adamw.h"

#include <utility>

namespace ridgepoint::torch {

void AdamW::step() {
  Kernels& kernels = f_.kernels();
  if (state_.empty()) {
    kernels.enter(MemoryCategory::optimizer_state, Thread::python);
    for (const Tensor& parameter : parameters_) {
      // The fused kernel reads the number of steps on the GPU.
      if (fused_) state_.push_back(kernels.empty({}, DType::fp32));
      state_.push_back(kernels.copy(parameter));
      state_.push_back(kernels.copy(parameter));
    }
  }
  kernels.enter(MemoryCategory::temporary, Thread::python);
  if (fused_) return;
  // Of its ops on lists only the square roots of the second moments are not in place.
  std::vector<Tensor> roots;
  for (const Tensor& parameter : parameters_) roots.push_back(kernels.copy(parameter));
}

GradScaler::GradScaler(Functions& functions) : f_(functions) {
  f_.kernels().enter(MemoryCategory::optimizer_state, Thread::python);
  scale_ = f_.kernels().empty({}, DType::fp32);
  growth_tracker_ = f_.kernels().empty({}, DType::int32);
}

Tensor GradScaler::scale(const Tensor& loss) { return f_.mul(loss, scale_); }

void GradScaler::step(AdamW& optimizer) {
  f_.kernels().enter(MemoryCategory::temporary, Thread::python);
  const Tensor inverse_scale = f_.kernels().empty({}, DType::fp32);
  const Tensor found_infinity = f_.kernels().empty({}, DType::fp32);
  optimizer.step();
}

}  // namespace ridgepoint::torch
