// Small Transformers whose layers are made of different things, together of all that Architecture describes.
#pragma once

#include <string>
#include <vector>

#include "models/transformer/transformer.h"

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
  // A small epsilon would let the rounding of small results show.
  const StateMixer state = {
      .key_heads = 2, .heads = 4, .key_size = 9, .value_size = 5, .convolution_bias = true, .norm_epsilon = 1e-3};
  add("states", {.kv_heads = 2,
                 .norm_adds_one = true,
                 .output_gate = true,
                 .mixers = {Mixer::gated_delta, Mixer::state_space, Mixer::attention},
                 .state = state});
  StateMixer grouped = state;
  grouped.input_bias = grouped.output_bias = true;
  grouped.gate_norm = GateNorm::norm_of_product;
  grouped.norm_groups = 2;
  grouped.most_step = 1;
  add("layers_of_one_part", {.activation = Activation::relu_squared,
                             .gated = false,
                             .unrotated_layers = {true},
                             .mixers = {Mixer::attention_and_state_space, Mixer::short_convolution, Mixer::none},
                             .state = grouped,
                             .feed_forward_layers = {true, false, true},
                             .part_scales = {.attention_input = 1.2, .keys = 0.8, .gate = 1.1}});
  add("experts", {.kv_heads = 2, .experts = {.count = 5, .per_token = 2, .normalised = true, .auxiliary_loss = 0.02}});
  add("shared_expert", {.experts = {.count = 4, .per_token = 3, .shared_width = 16}});
  add("side_by_side",
      {.norm = Norm::layer_norm,
       .block = BlockOrder::side_by_side,
       .activation = Activation::gelu,
       .gated = false,
       .feed_forward_bias = true,
       .head_bias = true,
       .rotary = {.share = 0.67, .scaling = RotaryScaling::dynamic, .factor = 2, .original_context = 7}});
  add("one_norm", {.kv_heads = 2,
                   .norm = Norm::layer_norm,
                   .norm_biases = false,
                   .block = BlockOrder::side_by_side_one_norm,
                   .tied_head = true,
                   .logit_scale = 0.25,
                   .window = 5,
                   .window_layers = {true, false},
                   .unrotated_layers = {false, true}});
  add("norms_of_each_head", {.kv_heads = 2,
                             .norm = Norm::layer_norm,
                             .norm_biases = false,
                             .block = BlockOrder::side_by_side_one_norm,
                             .projection_norm = ProjectionNorm::each_head});
  add("multipliers", {.kv_heads = 1,
                      .norm_weights = false,
                      .rotary = {.scaling = RotaryScaling::yarn, .factor = 4, .original_context = 16, .amplitude = 1.1},
                      .projection_norm = ProjectionNorm::rotated,
                      .query_scale = 0.3,
                      .projection_limit = 0.5,
                      .embedding_scale = 3,
                      .residual_scale = 0.4,
                      .logit_scale = 0.5,
                      .query_growth = {.strength = 0.2, .length = 4}});
  add("latent", {.head_size = 10,
                 .rotary = {.share = 0.4},
                 .latent = {.kv_rank = 9, .q_rank = 7, .rotated = 4, .value_size = 5},
                 .experts = {.count = 8,
                             .per_token = 3,
                             .normalised = true,
                             .shared_width = 6,
                             .shared_gate = false,
                             .rules = {.scores = RouterScores::sigmoid,
                                       .has_correction = true,
                                       .groups = 4,
                                       .groups_per_token = 2,
                                       .scale = 2.5},
                             .layers = {false, true, true},
                             .dense_width = 20}});
  add("sinks", {.kv_heads = 2,
                .projection_bias = true,
                .output_bias = true,
                .sinks = true,
                .window = 4,
                .window_layers = {true, false},
                .experts = {.count = 5,
                            .per_token = 2,
                            .rules = {.scores = RouterScores::softmax_of_chosen,
                                      .has_router_bias = true,
                                      .has_biases = true,
                                      .limit = 7,
                                      .slope = 1.702}}});
  add("chunks", {.kv_heads = 2,
                 .projection_norm = ProjectionNorm::unweighted,
                 .query_growth = {.strength = 0.1, .length = 4, .offset = 1, .unrotated_layers = true},
                 .window = 5,
                 .window_layers = {true, true, false},
                 .chunks = true,
                 .unrotated_layers = {false, false, true},
                 .experts = {.count = 3,
                             .per_token = 1,
                             .shared_width = 8,
                             .shared_gate = false,
                             .rules = {.scores = RouterScores::sigmoid, .weighs_inputs = true}}});
  add("shared_keys", {.kv_heads = 2,
                      .head_size = 6,
                      .placement = NormPlacement::both,
                      .activation = Activation::gelu_tanh,
                      .tied_head = true,
                      .rotary = {.theta = 1e6, .share = 0.5, .scaling = RotaryScaling::proportional},
                      .projection_norm = ProjectionNorm::per_head,
                      .query_scale = 0.5,
                      .full_heads = {.size = 8, .kv_heads = 1, .keys_are_values = true},
                      .value_norm = true,
                      .layers_without_keys = 1,
                      .wide_without_keys = true,
                      .per_layer = {.width = 9, .vocab = 53},
                      .layer_scalars = true,
                      .window = 5,
                      .window_layers = {true, false, false},
                      .separate_rotary = true});
  add("streams", {.kv_heads = 2,
                  .placement = NormPlacement::both,
                  .activation = Activation::gelu_tanh,
                  .query_scale = 0.2,
                  .per_layer = {.width = 16, .vocab = 53},
                  .updates = {.streams = 3, .active = 1},
                  .low_rank = 5,
                  .sparsity = {0.7, 0, 0}});
  add("experts_beside", {.placement = NormPlacement::both,
                         .activation = Activation::gelu_tanh,
                         .experts = {.count = 5,
                                     .per_token = 2,
                                     .normalised = true,
                                     .rules = {.router_epsilon = 1e-6, .has_expert_scales = true},
                                     .dense_width = 14,
                                     .beside_dense = true}});
  add("chosen_keys",
      {.head_size = 10,
       .rotary = {.share = 0.4},
       .latent = {.kv_rank = 9, .q_rank = 11, .rotated = 4, .value_size = 7},
       .selection = {
           .heads = 5, .head_size = 6, .rotated = 4, .kept = 4, .layers = {true, false}, .others_share = true}});
  add("chosen_blocks",
      {.kv_heads = 2,
       .norm_adds_one = true,
       .rotary = {.share = 2.0 / 3},
       .selection =
           {.heads = 2, .head_size = 6, .rotated = 4, .kept = 3, .block = 2, .local = 2, .layers = {true, false, true}},
       .experts = {.count = 5,
                   .per_token = 2,
                   .normalised = true,
                   .shared_width = 9,
                   .shared_gate = false,
                   .rules = {.limit = 0.7, .slope = 1.7, .limits_all = true},
                   .layers = {true, false},
                   .dense_width = 14}});
  add("compressed_keys", {.kv_heads = 1,
                          .head_size = 6,
                          .rotary = {.theta = 1e5, .share = 2.0 / 3},
                          .compressed = {.q_rank = 11,
                                         .rotated = 4,
                                         .groups = 2,
                                         .group_rank = 5,
                                         .overlapping_rate = 2,
                                         .heavy_rate = 5,
                                         .index_heads = 5,
                                         .index_size = 4,
                                         .index_kept = 3,
                                         .layers = {Compression::none, Compression::overlapping, Compression::heavy}},
                          .connections = {.streams = 3, .iterations = 3},
                          .window = 4,
                          .window_layers = {true, false, false},
                          .window_rotary = {.share = 2.0 / 3},
                          .separate_rotary = true,
                          .experts = {.count = 5,
                                      .per_token = 2,
                                      .normalised = true,
                                      .shared_width = 9,
                                      .shared_gate = false,
                                      .rules = {.scores = RouterScores::sqrt_softplus,
                                                .has_correction = true,
                                                .limit = 0.7,
                                                .limit_adds_one = false},
                                      .hashed_layers = 1}});
  add("experts_before_dense",
      {.third_factor = true,
       .unpredicted_tokens = 3,
       .experts = {
           .count = 5, .per_token = 2, .layers = {true, false, false}, .dense_width = 14, .before_dense = true}});
  add("sparse_mixer",
      {.experts = {.count = 5, .per_token = 2, .rules = {.scores = RouterScores::sparse_mixer, .jitter = 0.4}}});
  add("linear_bias", {.norm = Norm::layer_norm,
                      .activation = Activation::gelu,
                      .gated = false,
                      .positions = Positions::linear_bias,
                      .embedding_norm = true});
  add("encoder", {.norm = Norm::layer_norm,
                  .placement = NormPlacement::of_sums,
                  .activation = Activation::gelu,
                  .gated = false,
                  .projection_bias = true,
                  .feed_forward_bias = true,
                  .tied_head = true,
                  .head_bias = true,
                  .positions = Positions::learned,
                  .max_context = 16,
                  .embedding_norm = true,
                  .is_causal = false,
                  .token_types = 2,
                  .final_norm = false,
                  .head_transform = true});
  add("images", {.norm = Norm::layer_norm,
                 .activation = Activation::gelu,
                 .gated = false,
                 .head_bias = true,
                 .positions = Positions::learned,
                 .max_context = 17,
                 .is_causal = false,
                 .images = {.size = 16, .patch = 4, .channels = 2}});
  all.back().context = 17;
  return all;
}

}  // namespace ridgepoint::testing
