// A family of models: how its config.json is read and written, what its files call the weights, and what its code in
// transformers does otherwise than Llama's. One file a family, or some that share most of it; families.cpp lists them.
// Defaults of absent fields are those of transformers 4.57; fields that 5.x renamed are read under both names.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

// The modules of the files. Empty: the family has no such module.
struct WeightNames {
  std::string_view model = "model.", embedding = "embed_tokens", positions = {}, layers = "layers", final_norm = "norm";
  // Of a layer. `qkv` and `gate_up` pack several projections into one weight.
  std::string_view attention = "self_attn", q = "q_proj", k = "k_proj", v = "v_proj", qkv = {}, output = "o_proj";
  std::string_view feed_forward = "mlp", gate = "gate_proj", up = "up_proj", gate_up = {}, down = "down_proj";
  std::string_view experts = "mlp", expert_gate = gate, expert_up = up, expert_down = down;
  // ln1, ln1_after, ln2 and ln2_after of this program.
  std::array<std::string_view, 4> norms = {"input_layernorm", "", "post_attention_layernorm", ""};
  bool norms_in_between = false;  // in the order of files: before and after attention, not at the end of the layer
  bool is_transposed = false;     // linear layers are [in, out]: Conv1D
};

// What its Python code does in another way than Llama's, as far as PyTorch's allocations depend on it.
struct TransformersCode {
  bool gpt2_blocks = false;        // split(), sums, GELU and masks of scores as GPT2Block has them
  bool joins_rotated = false;      // rotary embedding joins the elements that it rotates with the others
  bool casts_rotated = false;      // rotary embedding computes in fp32, and its results are cast
  bool scales_norms_wide = false;  // norms multiply by the weight before the cast
  bool routes_wide = false;        // the weights of experts stay fp32
};

struct Family {
  std::string_view model_type;
  std::string_view class_name;  // in transformers
  TransformerConfig (*read)(ConfigFields& fields);
  // Adds the fields of a configuration that read() would return; `fields` has model_type and architectures.
  void (*write)(const TransformerConfig& config, Json& fields);
  WeightNames names = {};
  TransformersCode code = {};
  // The model with images whose part is this one: its model_type, and the module that holds this one.
  std::string_view outer_type = {}, outer_module = {};
  // Tensors of the files that belong to no parameter: those of a module, or those that end so.
  std::array<std::string_view, 2> other_modules = {}, other_ends = {};
};

std::span<const Family* const> families();
// Null for a family that is not supported.
const Family* find_family(std::string_view model_type);
// That of the model; Llama for one without a family. Throws Error for one that is not supported.
const Family& family_of(const TransformerConfig& config);
// What the program lacks for a family that it knows of and does not support; empty for others.
std::string_view lacking_for(std::string_view model_type);

}  // namespace ridgepoint
