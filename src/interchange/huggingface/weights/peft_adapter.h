// Low-rank adapters in the files of the library PEFT, a folder with
//
//   adapter_config.json        {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"],
//                               "base_model_name_or_path": "FOLDER", ...}
//   adapter_model.safetensors  base_model.model.LAYER.lora_A.weight [r, in] and ...lora_B.weight [out, r]
//
// LAYER is the name in the files of the base. The rows of B are in the order of those of the base's weight. Adapters of
// parts of a packed layer, as of q_proj and v_proj of a qkv_proj, are one pair there: the rows of their As follow each
// other, and B is 0 but for the block of each. All layers of a file have one rank, so the others have zeros.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "interchange/huggingface/weights/stored_weights.h"
#include "interchange/safetensors.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

inline constexpr std::string_view kPeftConfigFile = "adapter_config.json";
inline constexpr std::string_view kPeftTensorFile = "adapter_model.safetensors";

// A layer of the base with a pair of adapters.
struct AdaptedLayer {
  std::string name;                          // in the files, without ".weight"
  std::string pair;                          // in this program: the name of A is PAIR.lora_A.weight
  std::map<std::string, std::int64_t> rows;  // of B, where those of each parameter begin
  StoredWeight up, down;                     // B and A as they lie in the file
  bool is_transposed = false;                // the weight of the base is [in, out]
};
std::vector<AdaptedLayer> adapted_layers(const TransformerConfig& config, std::int64_t rank);

// Adapters of a program as tensors of the file.
class PeftTensors {
 public:
  using Value = std::function<HostTensor(const std::string& parameter)>;  // in fp32
  // Of these parameters PAIR.lora_A.weight and PAIR.lora_B.weight. Throws Error where PEFT has no layer for a pair: for
  // one that is spread over several layers of the files.
  PeftTensors(const TransformerConfig& config, const LoraOptions& options, const std::vector<std::string>& adapters,
              Value value);

  const std::vector<TensorDeclaration>& declarations() const { return declarations_; }
  HostTensor value(std::size_t tensor) const;
  // `base`: the folder of the model that the adapters change.
  Json config(const std::filesystem::path& base) const;

 private:
  // A pair of the program in the pair of a layer: where its rows begin in B.
  struct Source {
    std::string pair;
    std::int64_t row = 0;
  };

  std::vector<std::string> target_modules() const;
  HostTensor joined(std::size_t layer, bool is_down) const;

  LoraOptions options_;
  Value value_;
  std::vector<AdaptedLayer> layers_;          // two tensors each
  std::vector<std::vector<Source>> sources_;  // of each
  std::int64_t most_sources_ = 1;             // of a layer; the rank in the file is so many times that of a pair
  std::vector<std::string> others_;           // linear layers without adapters, by their names in the files
  std::vector<TensorDeclaration> declarations_;
};

bool is_peft_adapter(const std::filesystem::path& path);
// The folder of the model that an adapter changes: what its configuration names if that is there, else the folder that
// the adapter lies in. Throws Error where neither is a model.
std::filesystem::path base_of_adapter(const std::filesystem::path& adapter);

// Reads adapters, to make one model of them and their base.
class PeftAdapter {
 public:
  // Throws Error for a configuration that is none of LoRA, or has what is not read: DoRA, biases, other ranks by layer.
  PeftAdapter(const std::filesystem::path& folder, const TransformerConfig& config);

  // Sentences about tensors that belong to no layer of the model, lack their other half, or have another shape.
  std::vector<std::string> problems() const;
  // Adds scale * B A to the parameter, in fp32. Parameters without adapters stay.
  void add_to(const std::string& parameter, HostTensor& value) const;

 private:
  std::string tensor_name(const AdaptedLayer& layer, std::string_view half) const;  // empty where the file has none
  std::string problem_of(const AdaptedLayer& layer) const;

  std::int64_t rank_ = 0;
  double scale_ = 0;
  std::string prefix_;  // of the class that holds the model, which some files lack
  std::vector<AdaptedLayer> layers_;
  SafetensorsFile file_;
};

}  // namespace ridgepoint
