// The Transformer of docs/model.md as a module of PyTorch, as tools/torch_memory.py has it: which ops its Python code
// calls, and which tensors its local variables hold meanwhile.
#pragma once

#include <functional>
#include <vector>

#include "models/transformer.h"
#include "predict/torch/autograd/module.h"
#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {

class TransformerModule final : public Module {
 public:
  // Allocates parameters and buffers on the GPU, in the order in which module.to() does. Attention is `composite`,
  // `softmax` or `flash`, which is scaled_dot_product_attention.
  TransformerModule(const TransformerConfig& config, Functions& functions);

  const std::vector<Tensor>& parameters() const override { return parameters_; }
  Tensor forward(const Tensor& tokens) override;
  // cross_entropy(logits.view(-1, V).float(), targets.view(-1))
  Tensor loss(const Tensor& tokens, const Tensor& targets, const std::function<void()>& begin_loss) override;

 private:
  struct Attention {
    Tensor q, k, v, output;                      // weights
    Tensor cosines = {}, sines = {}, mask = {};  // buffers
  };
  struct Layer {
    Tensor attention_norm, transformation_norm;
    Attention attention;
    Tensor w1, w3, w2;
  };

  Tensor parameter(const Sizes& sizes);
  Layer make_layer();
  Tensor norm(const Tensor& x, const Tensor& weight);
  Tensor rotate(const Tensor& x, const Attention& attention);
  Tensor weights(const Tensor& scores);
  Tensor attend(const Tensor& x, const Attention& attention);
  Tensor transform(const Tensor& x, const Layer& layer);
  Tensor apply(const Tensor& x, const Layer& layer);

  const TransformerConfig& config_;
  Functions& f_;
  std::vector<Tensor> parameters_;
  Tensor embeddings_, final_norm_, head_;
  std::vector<Layer> layers_;
};

}  // namespace ridgepoint::torch
