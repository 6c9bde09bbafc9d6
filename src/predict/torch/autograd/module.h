// A language model as a training script calls it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/transformer.h"
#include "predict/torch/autograd/tensor.h"

namespace ridgepoint::torch {

class Module {
 public:
  virtual ~Module() = default;
  // In the order of module.parameters().
  virtual const std::vector<Tensor>& parameters() const = 0;
  // tokens int64 [B,S] -> logits [B,S,V]
  virtual Tensor forward(const Tensor& tokens) = 0;
  // The mean cross-entropy, a scalar. Calls `begin_loss` where forward ends.
  virtual Tensor loss(const Tensor& tokens, const Tensor& targets, const std::function<void()>& begin_loss) = 0;
};

class Functions;
// The model of docs/model.md.
std::unique_ptr<Module> make_transformer(const TransformerConfig& config, Functions& functions);

}  // namespace ridgepoint::torch
