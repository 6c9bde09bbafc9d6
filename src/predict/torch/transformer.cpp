// The Transformer of docs/model.md as a PyTorch module, as in tools/pytorch/torch_memory.py: the ops that its Python
// code calls, and the tensors that its local variables hold.
#include <utility>
#include <vector>

#include "models/transformer/transformer.h"
#include "predict/torch/autograd/tensor.h"
#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {
namespace {

class TransformerModule final : public Module {
 public:
  // Allocates parameters and buffers on the GPU, in the order in which module.to() does. Attention is `composite`,
  // `softmax` or `flash`, which is scaled_dot_product_attention.
  TransformerModule(const TransformerConfig& config, Functions& functions);

  const std::vector<Tensor>& parameters() const override { return parameters_; }
  Tensor forward(const Tensor& tokens) override;
  // cross_entropy(logits.view(-1, V).float(), targets.view(-1))
  Tensor loss(const Tensor& tokens, const Tensor& targets, const LossBegins& begin_loss) override;

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

TransformerModule::TransformerModule(const TransformerConfig& config, Functions& functions)
    : config_(config), f_(functions) {
  f_.kernels().enter(MemoryCategory::parameter, Thread::python);
  embeddings_ = parameter({config.vocab, config.d_model});
  for (std::int64_t i = 0; i < config.layers; ++i) layers_.push_back(make_layer());
  final_norm_ = parameter({config.d_model});
  head_ = parameter({config.vocab, config.d_model});
}

Tensor TransformerModule::parameter(const Sizes& sizes) { return parameters_.emplace_back(f_.parameter(sizes)); }

TransformerModule::Layer TransformerModule::make_layer() {
  const std::int64_t width = config_.d_model;
  Kernels& kernels = f_.kernels();
  Layer layer;
  layer.attention_norm = parameter({width});
  layer.transformation_norm = parameter({width});
  for (Tensor* weight : {&layer.attention.q, &layer.attention.k, &layer.attention.v, &layer.attention.output})
    *weight = parameter({width, width});
  kernels.enter(MemoryCategory::data, Thread::python);
  layer.attention.cosines = kernels.empty({config_.context, width / config_.heads / 2}, DType::fp32);
  layer.attention.sines = kernels.copy(layer.attention.cosines);
  layer.attention.mask = kernels.empty({config_.context, config_.context}, DType::boolean);
  kernels.enter(MemoryCategory::parameter, Thread::python);
  layer.w1 = parameter({config_.d_ff, width});
  layer.w3 = parameter({config_.d_ff, width});
  layer.w2 = parameter({width, config_.d_ff});
  return layer;
}

Tensor TransformerModule::forward(const Tensor& tokens) {
  Tensor x = f_.embedding(embeddings_, tokens);
  for (const Layer& layer : layers_) x = apply(x, layer);
  return f_.linear(norm(x, final_norm_), head_);
}

Tensor TransformerModule::loss(const Tensor& tokens, const Tensor& targets, const LossBegins& begin_loss) {
  const Tensor logits = forward(tokens);
  begin_loss(logits);
  const Tensor rows = f_.view(logits, {tokens.elements(), config_.vocab});
  return f_.cross_entropy(f_.to(rows, DType::fp32), *targets.viewed_as({tokens.elements()}));
}

Tensor TransformerModule::apply(const Tensor& x, const Layer& layer) {
  Tensor branch = attend(norm(x, layer.attention_norm), layer.attention);
  const Tensor sum = f_.add(x, branch);
  branch = {};
  branch = transform(norm(sum, layer.transformation_norm), layer);
  return f_.add(sum, branch);
}

// (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight).to(dtype)
Tensor TransformerModule::norm(const Tensor& x, const Tensor& weight) {
  const Tensor wide = f_.to(x, DType::fp32);
  Tensor scale = f_.power(wide);
  scale = f_.mean(scale);
  scale = f_.add_number(scale);
  scale = f_.rsqrt(scale);
  Tensor scaled = f_.mul(wide, scale);
  scale = {};
  scaled = f_.mul(scaled, weight);
  return f_.to(scaled, x.dtype);
}

// torch.stack((a * cosines - b * sines, a * sines + b * cosines), -1).flatten(-2).to(dtype)
Tensor TransformerModule::rotate(const Tensor& x, const Attention& attention) {
  const Tensor a = f_.every_other(x);
  const Tensor b = f_.every_other(x);
  Tensor even, odd;
  {
    const Tensor left = f_.mul(a, attention.cosines);
    const Tensor right = f_.mul(b, attention.sines);
    even = f_.sub(left, right);
  }
  {
    const Tensor left = f_.mul(a, attention.sines);
    const Tensor right = f_.mul(b, attention.cosines);
    odd = f_.add(left, right);
  }
  const Tensor pairs = f_.stack_last(even, odd);
  even = odd = {};
  return f_.to(f_.view(pairs, x.sizes), x.dtype);
}

// The softmax of the course in plain ops, or torch.softmax().
Tensor TransformerModule::weights(const Tensor& scores) {
  if (config_.attention == AttentionVariant::softmax) return f_.softmax(scores);
  Tensor difference = f_.sub(scores, f_.amax(scores));
  const Tensor exponentials = f_.exp(difference);
  difference = {};
  const Tensor sum = f_.sum(exponentials);
  return f_.div(exponentials, sum);
}

Tensor TransformerModule::attend(const Tensor& x, const Attention& attention) {
  const std::int64_t batch = x.sizes[0];
  const std::int64_t context = x.sizes[1];
  const Sizes by_head = {batch, context, config_.heads, config_.d_model / config_.heads};
  const auto project = [&](const Tensor& weight) { return f_.transpose(f_.view(f_.linear(x, weight), by_head), 1, 2); };
  Tensor q = project(attention.q);
  Tensor k = project(attention.k);
  const Tensor v = project(attention.v);
  {
    Tensor rotated_q = rotate(q, attention);
    Tensor rotated_k = rotate(k, attention);
    q = std::move(rotated_q);
    k = std::move(rotated_k);
  }
  Tensor scores, mixed;
  if (config_.attention == AttentionVariant::flash) {
    mixed = f_.scaled_dot_product_attention(q, k, v);
  } else {
    scores = f_.matmul(q, f_.transpose(k, 2, 3));
    scores = f_.div_number(scores);
    scores = f_.where(attention.mask, scores);
    mixed = f_.matmul(weights(scores), v);
  }
  const Tensor joined = f_.view(f_.transpose(mixed, 1, 2), x.sizes);
  return f_.linear(joined, attention.output);
}

// w2(silu(w1(x)) * w3(x))
Tensor TransformerModule::transform(const Tensor& x, const Layer& layer) {
  Tensor product;
  {
    Tensor gate = f_.linear(x, layer.w1);
    gate = f_.silu(gate);
    const Tensor value = f_.linear(x, layer.w3);
    product = f_.mul(gate, value);
  }
  return f_.linear(product, layer.w2);
}

}  // namespace

std::unique_ptr<Module> make_transformer(const TransformerConfig& config, Functions& functions) {
  return std::make_unique<TransformerModule>(config, functions);
}

}  // namespace ridgepoint::torch
