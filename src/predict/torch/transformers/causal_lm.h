// A family of docs/models.md in training with `transformers` 5, decoders and encoders of tokens: the ops that its
// Python code calls, and the tensors that its local variables hold. Dropout is off, and there is no key-value cache.
#pragma once

#include <cstdint>
#include <vector>

#include "interchange/huggingface/families/family.h"
#include "models/transformer/transformer.h"
#include "predict/torch/autograd/tensor.h"
#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {

class CausalLm final : public Module {
 public:
  // Allocates parameters and buffers on the GPU. Attention is `flash` (attn_implementation="sdpa") or any other
  // ("eager"). `checkpoints`: gradient_checkpointing_enable(), of every layer.
  CausalLm(const TransformerConfig& config, bool checkpoints, Functions& functions);

  const std::vector<Tensor>& parameters() const override { return parameters_; }
  Tensor forward(const Tensor& tokens) override;
  // ForCausalLMLoss with the tokens as labels, shifted by one position; of an encoder the cross-entropy of all tokens.
  // `targets` is not read.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const LossBegins& begin_loss) override;

 private:
  // Undefined tensors stand for what a family lacks.
  struct Weights {
    Tensor weight, bias;
    bool is_defined = false;  // of a norm, which may have neither
  };
  struct Router {
    Tensor weight;
    Tensor bias;
    Tensor gate_up, down;  // of all experts: [E,2F,D] and [E,D,F], or transposed
    Tensor gate_up_bias, down_bias;
    Weights shared_gate, shared_up, shared_down, shared_switch;
  };
  struct Layer {
    bool has_window = false;
    bool rotates = false;
    std::int64_t head_size = 0;
    bool has_keys = true;  // otherwise those of the last layer of its kind that has
    bool keys_are_values = false;
    Weights first_norm, after_attention_norm, second_norm, after_feed_forward_norm;
    Weights packed, q, k, v, output;
    Weights q_norm, k_norm;
    Tensor sinks;
    Tensor own_mask;  // boolean, of the longest sequence
    Weights gate, up, down;
    Router experts;
    Weights input_gate, input_projection, input_norm;  // of its own inputs (Gemma 4)
  };
  // What the layers of a forward share.
  struct Context {
    Tensor cosines, sines;                // fp32 [1,1,S,rotated]
    Tensor window_cosines, window_sines;  // of layers with a window, where they differ
    Tensor mask, window_mask;             // undefined where attention needs none
  };
  struct Heads {
    Tensor q, k, v;  // [B,H,S,D]
  };
  struct Attended {
    Tensor output, weights;
  };

  bool is_eager() const { return config_.attention != AttentionVariant::flash; }
  Tensor parameter(const Sizes& sizes) { return parameters_.emplace_back(f_.parameter(sizes)); }
  Weights make_norm(std::int64_t width);
  Weights make_norm(const Sizes& sizes, bool has_weight, bool has_bias);
  Weights make_linear(std::int64_t in, std::int64_t out, bool has_bias);
  void make_attention(std::int64_t index, Layer& layer);
  void make_feed_forward(std::int64_t index, Layer& layer);
  void make_experts(Router& router);
  void make_norms(Layer& layer);
  Layer make_layer(std::int64_t index);

  Context make_context(const Tensor& tokens);
  void make_positions(const Rotary& rotary, std::int64_t head_size, std::int64_t context, Tensor& cosines,
                      Tensor& sines);
  Tensor make_mask(const Tensor& tokens, bool is_needed);
  Tensor data(const Sizes& sizes, DType dtype);  // what depends on no parameter
  Tensor embed(const Tensor& tokens, std::vector<Tensor>& locals);
  Tensor inputs_of_layers(const Tensor& tokens, const Tensor& embedded);
  Tensor hidden_states(const Tensor& tokens);
  Tensor logits(const Tensor& hidden);

  Tensor decode(const Tensor& x, const Layer& layer, const Context& context, const Tensor& own_input);
  Tensor add_own_input(const Tensor& x, const Layer& layer, const Tensor& own_input);
  Tensor decode_side_by_side(const Tensor& x, const Layer& layer, const Context& context);
  Tensor scaled(const Tensor& branch);
  Tensor linear(const Tensor& x, const Weights& weights);
  Tensor norm(const Tensor& x, const Weights& weights);
  Tensor plain_layer_norm(const Tensor& x, const Weights& weights);
  Tensor norm_by_power(const Tensor& x, const Weights& weights);
  Heads project(const Tensor& x, const Layer& layer);
  Heads project_and_rotate_keys_first(const Tensor& x, const Layer& layer, const Context& context);
  Heads project_and_rotate(const Tensor& x, const Layer& layer, const Context& context);
  Tensor rotate_half(const Tensor& x);
  Tensor rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines);
  void rotate_heads(Heads& heads, const Layer& layer, const Context& context);
  void finish_heads(Heads& heads, const Layer& layer);
  Tensor rotate_halves(const Tensor& x, const Tensor& cosines, const Tensor& sines);
  Tensor shares_beside(const Tensor& scores, const Tensor& sinks, Tensor& combined);
  Tensor scores(const Heads& heads, const Tensor& keys, const Layer& layer);
  Attended eager_attention(const Heads& heads, const Layer& layer, const Tensor& mask);
  Tensor sdpa_attention(const Heads& heads, const Tensor& mask);
  Attended attend(const Tensor& x, const Layer& layer, const Context& context);
  Tensor activate(const Tensor& x);
  Tensor gated(const Tensor& x, const Weights& gate, const Weights& up, const Weights& down);
  Tensor feed_forward(const Tensor& x, const Layer& layer);
  Tensor mixture(const Tensor& x, const Router& router);
  Tensor route(const Tensor& tokens, const Router& router);
  Tensor gate_of_experts(const Tensor& gate_up);
  Tensor run_experts(const Tensor& tokens, const Tensor& weights, const Router& router);

  const TransformerConfig& config_;
  const WeightNames& names_;
  const TransformersCode& code_;
  bool checkpoints_;
  Functions& f_;
  std::vector<Tensor> parameters_, buffers_;
  Tensor embeddings_, positions_, token_types_, inputs_of_layers_;
  Weights projection_of_inputs_, norm_of_inputs_;
  Heads shared_[2];  // keys and values of the last layer that has its own, without a window and with one
  std::vector<Layer> layers_;
  Weights embedding_norm_, final_norm_;
  Weights head_transform_, head_norm_, head_;
};

}  // namespace ridgepoint::torch
