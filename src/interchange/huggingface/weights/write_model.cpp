#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "core/files/file.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/weight_rows.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ParameterValue = std::function<HostTensor(const ParameterDeclaration&)>;

// The newest parameters: the tensors of experts need the same three again and again.
class RecentValues {
 public:
  RecentValues(const std::vector<StoredWeight>& weights, const ParameterValue& value) : value_(value) {
    for (const bool constants : {false, true}) {
      for (ParameterDeclaration& one : parameters_of(weights, constants)) declarations_.emplace(one.name, one.type);
    }
  }

  const HostTensor& get(const std::string& parameter) {
    for (const auto& [name, tensor] : recent_) {
      if (name == parameter) return tensor;
    }
    constexpr std::size_t kMostKept = 3;
    if (recent_.size() == kMostKept) recent_.pop_front();
    return recent_.emplace_back(parameter, value_({parameter, declarations_.at(parameter)})).second;
  }

 private:
  const ParameterValue& value_;
  std::unordered_map<std::string, TensorType> declarations_;
  std::deque<std::pair<std::string, HostTensor>> recent_;
};

TensorType type_of(const StoredWeight& weight) {
  return {weight.has_integers ? DType::int64 : DType::fp32, weight.shape};
}

HostTensor stored_value(const StoredWeight& weight, RecentValues& values) {
  HostTensor stored(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part)
    WeightRows(weight, part).write(values.get(weight.parts[part].parameter), stored);
  if (!weight.has_integers) return stored;
  HostTensor numbers(type_of(weight));
  std::ranges::transform(stored.as<float>(), numbers.as<std::int64_t>().begin(),
                         [](float number) { return static_cast<std::int64_t>(number); });
  return numbers;
}

std::uint64_t bytes_of(const StoredWeight& weight) { return type_of(weight).bytes(); }

// Consecutive tensors that take at most the limit together; a larger one has a shard of its own.
std::vector<std::vector<std::size_t>> shards_of(const std::vector<StoredWeight>& weights, std::uint64_t limit) {
  std::vector<std::vector<std::size_t>> shards(1);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (bytes > 0 && bytes + bytes_of(weights[i]) > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += bytes_of(weights[i]);
  }
  return shards;
}

void make_empty_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) throw_system_error("make the folder", folder, error.value());
  if (!std::filesystem::is_empty(folder))
    throw Error(fmt::format("the folder '{}' has files; name a new one, so that no weights of another model stay in it",
                            folder.string()));
}

}  // namespace

void write_model(const std::filesystem::path& folder, const TransformerConfig& config, const ParameterValue& value,
                 std::uint64_t max_shard_bytes) {
  make_empty_folder(folder);
  const std::vector<StoredWeight> weights = stored_weights(config);
  const std::vector<std::vector<std::size_t>> shards = shards_of(weights, max_shard_bytes);
  RecentValues values(weights, value);
  // transformers refuses a file without this entry.
  const std::pair<std::string, std::string> format = {"format", "pt"};
  Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string file = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards.size());
    std::vector<TensorDeclaration> declarations;
    for (const std::size_t i : shards[shard]) {
      declarations.push_back({weights[i].name, type_of(weights[i])});
      index["weight_map"].get_ref<Json::object_t&>().push_back({weights[i].name, file});
      total += bytes_of(weights[i]);
    }
    write_safetensors(
        folder / file, declarations, [&](std::size_t i) { return stored_value(weights[shards[shard][i]], values); },
        std::span(&format, 1));
  }
  index["metadata"]["total_size"] = total;
  if (shards.size() > 1) write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  write_file(folder / "config.json", model_config_json(config).dump(2) + "\n");
}

}  // namespace ridgepoint
