#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "interchange/huggingface/config/quantisation.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/published_weights.h"
#include "interchange/huggingface/weights/weight_rows.h"

namespace ridgepoint {
namespace {

// Consecutive tensors that take at most the limit together; a larger one has a shard of its own.
std::vector<std::vector<std::size_t>> shards_of(const std::vector<TensorDeclaration>& tensors, std::uint64_t limit) {
  std::vector<std::vector<std::size_t>> shards(1);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (bytes > 0 && bytes + tensors[i].type.bytes() > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += tensors[i].type.bytes();
  }
  return shards;
}

void make_empty_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) throw_system_error("make the folder", folder, error.value());
  if (!std::filesystem::is_empty(folder))
    throw_error("the folder '{}' has files; name a new one, so that no weights of another model stay in it",
                folder.string());
}

}  // namespace

// The newest parameters: the tensors of experts need the same three again and again.
class ModelTensors::RecentValues {
 public:
  RecentValues(const std::vector<StoredWeight>& weights, Value value) : value_(std::move(value)) {
    for (const bool constants : {false, true}) {
      for (ParameterDeclaration& one : parameters_of(weights, constants)) declarations_.emplace(one.name, one.type);
    }
  }

  bool contains(const std::string& parameter) const { return declarations_.contains(parameter); }
  const TensorType& declaration(const std::string& parameter) const { return declarations_.at(parameter); }

  const HostTensor& get(const std::string& parameter) {
    for (const auto& [name, tensor] : recent_) {
      if (name == parameter) return tensor;
    }
    constexpr std::size_t kMostKept = 3;
    if (recent_.size() == kMostKept) recent_.pop_front();
    return recent_.emplace_back(parameter, value_({parameter, declarations_.at(parameter)})).second;
  }

 private:
  Value value_;
  std::unordered_map<std::string, TensorType> declarations_;
  std::deque<std::pair<std::string, HostTensor>> recent_;
};

ModelTensors::ModelTensors(const TransformerConfig& config, Value value, StoredType stored, const Packed& packed)
    : config_(config),
      weights_(stored_weights(config)),
      constants_(parameters_of(weights_, true)),
      values_(std::make_unique<RecentValues>(weights_, std::move(value))) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const StoredWeight& weight = weights_[i];
    if (std::optional<std::vector<PackedBytes>> parts = packed_parts(weight, packed)) {
      const QuantisedParts& tensors =
          packed_.emplace(i, QuantisedParts(weight.name, *std::move(parts), config.packing.dtype)).first->second;
      for (std::size_t j = 0; j < tensors.declarations().size(); ++j) {
        declarations_.push_back(tensors.declarations()[j]);
        origins_.push_back({i, j});
      }
      continue;
    }
    std::set<DType> types;
    for (const WeightPart& part : weight.parts) types.insert(stored ? stored(part.parameter) : DType::fp32);
    const DType of_parts = types.size() == 1 ? *types.begin() : DType::fp32;
    declarations_.push_back({weight.name, {weight.has_integers ? DType::int64 : of_parts, weight.shape}});
    origins_.push_back({i});
  }
}

ModelTensors::~ModelTensors() = default;

bool ModelTensors::contains(const std::string& parameter) const { return values_->contains(parameter); }

std::optional<std::vector<PackedBytes>> ModelTensors::packed_parts(const StoredWeight& weight,
                                                                   const Packed& packed) const {
  if (!packed) return std::nullopt;
  std::vector<PackedBytes> parts;
  for (const WeightPart& part : weight.parts) {
    const std::optional<PackedBytes> bytes = packed(part.parameter);
    if (!bytes || bytes->matrix.order != part.order()) return std::nullopt;
    // Versions of transformers from 5 on have no linear layer for a router; files of older ones may have it packed.
    if (part.parameter.ends_with(".router.weight") && !config_.packing.is_packed()) return std::nullopt;
    parts.push_back(*bytes);
  }
  const bool are_parts = !parts.empty() && has_packed_parts(weight, parts[0].matrix.format, weights_);
  return are_parts && QuantisedParts::are_one(parts) ? std::optional(std::move(parts)) : std::nullopt;
}

Json ModelTensors::config() const {
  Json fields = model_config_json(config_);
  if (packed_.empty()) return fields;
  std::vector<std::string> packed;
  for (const auto& [weight, tensors] : packed_) packed.push_back(weights_[weight].name);
  fields["torch_dtype"] = config_.packing.dtype.empty() ? "bfloat16" : config_.packing.dtype;
  fields["quantization_config"] =
      quantization_config(packed_.begin()->second.format(), unpacked_modules(config_, packed));
  return fields;
}

std::string ModelTensors::same_as(std::size_t tensor) const {
  if (origins_[tensor].of_packed) return "";
  const StoredWeight& weight = weights_[origins_[tensor].weight];
  const bool is_plain = !weight.is_transposed && weight.experts() == 0 && !weight.has_integers && !weight.is_constant;
  if (!is_plain || weight.parts.size() != 1) return "";
  const WeightPart& part = weight.parts[0];
  const bool is_in_order = part.rotated == 0 && part.column_heads == 0 && part.places.first == 0 &&
                           part.places.together == part.rows && part.rows == weight.own_shape()[0];
  const bool is_whole = values_->declaration(part.parameter).elements() == weight.shape.elements();
  return is_in_order && is_whole ? part.parameter : "";
}

HostTensor ModelTensors::value(std::size_t tensor) {
  const Origin& origin = origins_[tensor];
  if (origin.of_packed) return packed_.at(origin.weight).value(*origin.of_packed);
  const StoredWeight& weight = weights_[origin.weight];
  HostTensor stored(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part)
    WeightRows(weight, part).write(values_->get(weight.parts[part].parameter), stored);
  const TensorType& type = declarations_[tensor].type;
  if (type.dtype == DType::fp32) return stored;
  if (!weight.has_integers) return convert(stored, type.dtype);
  HostTensor numbers(type);
  std::ranges::transform(stored.as<float>(), numbers.as<std::int64_t>().begin(),
                         [](float number) { return static_cast<std::int64_t>(number); });
  return numbers;
}

void write_model(const std::filesystem::path& folder, const TransformerConfig& config, const ModelTensors::Value& value,
                 std::uint64_t max_shard_bytes) {
  make_empty_folder(folder);
  ModelTensors tensors(config, value);
  const std::vector<TensorDeclaration>& all = tensors.declarations();
  const std::vector<std::vector<std::size_t>> shards = shards_of(all, max_shard_bytes);
  const std::pair<std::string, std::string> format = kTorchFormat;
  Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string file = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards.size());
    std::vector<TensorDeclaration> declarations;
    for (const std::size_t i : shards[shard]) {
      declarations.push_back(all[i]);
      index["weight_map"].get_ref<Json::object_t&>().push_back({all[i].name, file});
      total += all[i].type.bytes();
    }
    write_safetensors(
        folder / file, declarations, [&](std::size_t i) { return tensors.value(shards[shard][i]); },
        std::span(&format, 1));
  }
  index["metadata"]["total_size"] = total;
  if (shards.size() > 1) write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  write_file(folder / "config.json", model_config_json(config).dump(2) + "\n");
}

}  // namespace ridgepoint
