// The weights of a Hugging Face model, as the parameters of this program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "interchange/huggingface/weights/quantised_tensor.h"
#include "interchange/huggingface/weights/stored_weights.h"
#include "interchange/huggingface/weights/tensor_files.h"

namespace ridgepoint {

class ModelWeights {
 public:
  // Opens the files as TensorFiles does. The tensors may have names with or without the prefix of the class that holds
  // the model ("model.", "transformer."). Anything that has the names and shapes of the weights can be read: gradients
  // too.
  ModelWeights(const std::filesystem::path& path, TransformerConfig config);

  // Sentences about tensors that are missing, have another shape or no floating type, and about tensors that belong to
  // no parameter. Empty if every parameter can be read.
  std::vector<std::string> problems() const;
  // What is worth knowing: floating types that are mixed.
  std::vector<std::string> notes() const;

  const std::vector<ParameterDeclaration>& parameters() const { return parameters_; }
  // Constants of the graph that the files have, which read() returns, too.
  const std::vector<ParameterDeclaration>& constants() const { return constants_; }
  // The parameter in fp32. Throws Error for one that the model lacks, and for a tensor that problems() would name.
  HostTensor read(const std::string& parameter) const;
  // The bytes of the file, of dtype packed; empty for a weight that the file has unpacked. Throws Error where the file
  // has it in another form.
  std::optional<HostTensor> read_packed(const std::string& parameter, const PackedMatrix& matrix) const;

 private:
  struct Place {  // of a part of a parameter
    std::size_t weight = 0;
    std::size_t part = 0;
  };

  const std::string* stored_name(const StoredWeight& weight) const;
  std::string problem_of(const StoredWeight& weight) const;
  // Throws Error where the tensor is not as it must be.
  QuantisedTensor quantised(const StoredWeight& weight) const;
  HostTensor read_stored(const StoredWeight& weight) const;
  bool is_expected(const std::string& stored) const;

  TensorFiles files_;
  TransformerConfig config_;
  std::vector<StoredWeight> weights_;
  std::vector<ParameterDeclaration> parameters_, constants_;
  std::unordered_map<std::string, std::vector<Place>> places_;  // by parameter
  std::unordered_map<std::string, std::string> names_;          // in the files, by the name in stored_weights()
  std::unordered_set<std::string> beside_;                      // tensors beside quantised ones
};

// Whether the file has the names of a Hugging Face model rather than this program's.
bool has_foreign_names(const TensorFiles& files);

// The tensors of the model's files, made of the parameters and constants of this program one at a time.
class ModelTensors {
 public:
  // `value` returns a parameter or constant in fp32; it is called for those with experts more than once. A tensor is in
  // the type that `stored` has for all of its parts, else in fp32. Where `packed` has the bytes of all parts and they
  // are those of one tensor, it is written as bitsandbytes does. What they refer to must outlive the object.
  using Value = std::function<HostTensor(const ParameterDeclaration&)>;
  using StoredType = std::function<DType(const std::string& parameter)>;
  using Packed = std::function<std::optional<PackedBytes>(const std::string& parameter)>;
  ModelTensors(const TransformerConfig& config, Value value, StoredType stored = {}, const Packed& packed = {});
  ~ModelTensors();

  const std::vector<TensorDeclaration>& declarations() const { return declarations_; }
  const std::vector<ParameterDeclaration>& constants() const { return constants_; }
  bool contains(const std::string& parameter) const;
  // The config.json of the model.
  Json config() const;
  // The parameter whose elements are those of the tensor, in their order. Empty where a tensor is made in another way.
  std::string same_as(std::size_t tensor) const;
  HostTensor value(std::size_t tensor);

 private:
  class RecentValues;

  // A weight, or one of the tensors of a packed one.
  struct Origin {
    std::size_t weight = 0;
    std::optional<std::size_t> of_packed = std::nullopt;
  };
  std::optional<std::vector<PackedBytes>> packed_parts(const StoredWeight& weight, const Packed& packed) const;

  TransformerConfig config_;
  std::vector<StoredWeight> weights_;
  std::vector<ParameterDeclaration> constants_;
  std::vector<TensorDeclaration> declarations_;
  std::vector<Origin> origins_;                   // of declarations
  std::map<std::size_t, QuantisedParts> packed_;  // by weight
  std::unique_ptr<RecentValues> values_;
};

// transformers refuses a file without this entry.
inline constexpr std::pair<const char*, const char*> kTorchFormat = {"format", "pt"};

inline constexpr std::uint64_t kMaxShardBytes = 5'000'000'000;

// Writes config.json and the weights in fp32 as transformers loads them: model.safetensors, or shards with their index
// where the weights take more than `max_shard_bytes`. `value` is called for one parameter or constant at a time, for
// those with experts more than once. Throws Error for a folder that has files, and where writing fails.
void write_model(const std::filesystem::path& folder, const TransformerConfig& config,
                 const std::function<HostTensor(const ParameterDeclaration&)>& value,
                 std::uint64_t max_shard_bytes = kMaxShardBytes);

}  // namespace ridgepoint
