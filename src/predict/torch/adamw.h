// torch.optim.AdamW (torch/optim/adam.py).
#pragma once

#include <vector>

#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {

class AdamW {
 public:
  // `fused`: one kernel for all parameters (AdamW(fused=True)); otherwise ops on lists of tensors (foreach, the
  // default).
  AdamW(const std::vector<Tensor>& parameters, bool fused, Functions& functions)
      : parameters_(parameters), fused_(fused), f_(functions) {}

  // Updates parameters that have a gradient. The first step allocates the two moments of each.
  void step();

 private:
  const std::vector<Tensor>& parameters_;
  bool fused_;
  Functions& f_;
  std::vector<Tensor> state_;
};

// torch.amp.GradScaler.
class GradScaler {
 public:
  explicit GradScaler(Functions& functions);
  Tensor scale(const Tensor& loss);
  // Divides the gradients by the scale in place, after a check that they are finite.
  void step(AdamW& optimizer);

 private:
  Functions& f_;
  Tensor scale_, growth_tracker_;
};

}  // namespace ridgepoint::torch
