// Small Transformers whose layers are made of different things, together of all that Architecture describes.
#pragma once

#include <string>
#include <vector>

#include "models/transformer.h"

namespace ridgepoint::testing {

inline TransformerConfig small_transformer(std::string name, Architecture architecture) {
  return {std::move(name), 53, 13, 24, 40, 3, 4, AttentionVariant::composite, std::move(architecture)};
}

inline std::vector<TransformerConfig> architectures() {
  std::vector<TransformerConfig> all;
  const auto add = [&](std::string name, Architecture architecture) {
    all.push_back(small_transformer(std::move(name), std::move(architecture)));
  };
  add("plain", {});
  add("grouped_heads", {.kv_heads = 2, .rotary = {.theta = 5e5, .scaling = RotaryScaling::llama3, .factor = 8}});
  add("one_key_head", {.kv_heads = 1, .head_size = 8, .projection_bias = true, .tied_head = true});
  add("layer_norms", {.norm = Norm::layer_norm,
                      .activation = Activation::gelu_tanh,
                      .gated = false,
                      .projection_bias = true,
                      .output_bias = true,
                      .feed_forward_bias = true,
                      .tied_head = true,
                      .positions = Positions::learned,
                      .max_context = 16});
  add("window", {.kv_heads = 2, .rotary = {.share = 0.75}, .window = 5});
  add("norms_after", {.placement = NormPlacement::after, .projection_norm = ProjectionNorm::whole});
  add("both_norms_and_caps", {.kv_heads = 2,
                              .head_size = 8,
                              .placement = NormPlacement::both,
                              .norm_epsilon = 1e-6,
                              .norm_adds_one = true,
                              .activation = Activation::gelu_tanh,
                              .tied_head = true,
                              .query_scale = 0.2,
                              .score_cap = 1.5,
                              .logit_cap = 2,
                              .embedding_scale = 4.9,
                              .window = 4,
                              .window_layers = {true, false}});
  add("two_rotaries", {.kv_heads = 1,
                       .head_size = 10,
                       .placement = NormPlacement::both,
                       .norm_adds_one = true,
                       .activation = Activation::gelu,
                       .rotary = {.theta = 1e6, .scaling = RotaryScaling::linear, .factor = 8},
                       .projection_norm = ProjectionNorm::per_head,
                       .window = 6,
                       .window_layers = {true, true, false},
                       .window_rotary = {},
                       .separate_rotary = true});
  add("experts", {.kv_heads = 2, .experts = {.count = 5, .per_token = 2, .normalised = true, .auxiliary_loss = 0.02}});
  add("shared_expert", {.experts = {.count = 4, .per_token = 3, .shared_width = 16}});
  return all;
}

}  // namespace ridgepoint::testing
