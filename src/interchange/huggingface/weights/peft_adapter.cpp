#include "interchange/huggingface/weights/peft_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/weights/weight_rows.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOuter = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kWeight = ".weight";
constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

std::int64_t rows_of(const StoredWeight& weight) { return weight.shape[weight.is_transposed ? 1 : 0]; }

std::map<std::string, std::int64_t> rows_of_parameters(const StoredWeight& weight) {
  std::map<std::string, std::int64_t> rows;
  for (const WeightPart& part : weight.parts) rows[part.parameter] += part.rows;
  return rows;
}

AdaptedLayer adapted(const PublishedLayer& layer, const StoredWeight& weight, std::int64_t rank) {
  AdaptedLayer made{.name = layer.name,
                    .pair = layer.adapted_name(),
                    .rows = {},
                    .up = weight,
                    .down = weight,
                    .is_transposed = weight.is_transposed};
  const std::map<std::string, std::int64_t> rows = rows_of_parameters(weight);
  std::int64_t begin = 0;
  for (const std::string& module : layer.modules) {
    const std::string parameter = module + std::string(kWeight);
    made.rows.emplace(parameter, begin);
    begin += rows.at(parameter);
  }
  made.up.shape = Shape{rows_of(weight), rank};
  made.up.is_transposed = false;
  for (WeightPart& part : made.up.parts) {
    part.first += made.rows.at(part.parameter);
    part.column_heads = part.rotated_columns = 0;
  }
  const std::int64_t width = weight.shape[weight.is_transposed ? 0 : 1];
  made.down.shape = Shape{rank, width};
  made.down.is_transposed = false;
  const WeightPart& first = weight.parts.front();
  made.down.parts = {{.parameter = made.pair,
                      .rows = rank,
                      .places = {0, rank, rank},
                      .column_heads = first.column_heads,
                      .rotated_columns = first.rotated_columns}};
  return made;
}

HostTensor in_file(const StoredWeight& weight, const HostTensor& ours) {
  HostTensor stored(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part) WeightRows(weight, part).write(ours, stored);
  return stored;
}

HostTensor in_program(const StoredWeight& weight, const HostTensor& stored) {
  HostTensor ours(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part)
    WeightRows(weight, part).read(convert(stored, DType::fp32), ours);
  return ours;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

Json read_config(const fs::path& folder) {
  const fs::path path = folder / kPeftConfigFile;
  Json config = parse_json(read_file(path, kMostConfigBytes), fmt::format("'{}'", path.string()));
  if (!config.is_object()) throw_error("'{}' is no object of JSON", path.string());
  return config;
}

template <typename Number>
Number number_in(const Json& config, const char* key, const fs::path& folder) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number() || found->get<double>() <= 0)
    throw_error("'{}': '{}' must be a number above 0", (folder / kPeftConfigFile).string(), key);
  return found->get<Number>();
}

// Throws Error for what makes another model than W + scale * B A.
void check_kind(const Json& config, const fs::path& folder) {
  const auto refuse = [&](const std::string& what) {
    throw_error("'{}' {}; low-rank adapters of linear layers alone are read", (folder / kPeftConfigFile).string(),
                what);
  };
  const Json type = config.value("peft_type", Json());
  if (type != "LORA") refuse(fmt::format("has the peft_type {}", dump_json(type)));
  if (const Json bias = config.value("bias", Json("none")); bias != "none")
    refuse(fmt::format("trains biases ({})", dump_json(bias)));
  for (const char* key : {"use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication"}) {
    const Json value = config.value(key, Json());
    if (!value.is_null() && value != false && !value.empty()) refuse(fmt::format("has {} = {}", key, dump_json(value)));
  }
}

bool is_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

}  // namespace

std::vector<AdaptedLayer> adapted_layers(const TransformerConfig& config, std::int64_t rank) {
  const std::vector<StoredWeight> weights = stored_weights(config);
  std::map<std::string, std::int64_t> in_all;  // rows of each parameter
  for (const ParameterDeclaration& one : parameters_of(weights)) in_all.emplace(one.name, one.type.shape[0]);
  std::vector<AdaptedLayer> layers;
  for (const PublishedLayer& layer : published_layers(config)) {
    const auto weight = std::ranges::find(weights, layer.name + std::string(kWeight), &StoredWeight::name);
    if (weight == weights.end()) continue;
    std::map<std::string, std::int64_t> rows = rows_of_parameters(*weight);
    const bool is_whole = std::ranges::all_of(rows, [&](const auto& one) {
      const auto all = in_all.find(one.first);
      return all != in_all.end() && all->second == one.second;
    });
    if (is_whole) layers.push_back(adapted(layer, *weight, rank));
  }
  return layers;
}

PeftTensors::PeftTensors(const TransformerConfig& config, const LoraOptions& options,
                         const std::vector<std::string>& adapters, Value value)
    : options_(options), value_(std::move(value)) {
  std::set<std::string> pairs;
  for (const std::string& name : adapters) pairs.insert(name.substr(0, name.size() - kA.size()));
  std::set<std::string> adapted;
  for (const AdaptedLayer& layer : adapted_layers(config, options.rank)) {
    std::vector<Source> sources;
    if (pairs.erase(layer.pair) > 0) {
      sources.push_back({layer.pair, 0});
    } else {
      for (const auto& [parameter, row] : layer.rows) {
        std::string pair = parameter.substr(0, parameter.size() - kWeight.size());
        if (pairs.erase(pair) > 0) sources.push_back({std::move(pair), row});
      }
    }
    if (sources.empty()) {
      others_.push_back(layer.name);
      continue;
    }
    adapted.insert(layer.name);
    most_sources_ = std::max<std::int64_t>(most_sources_, std::ssize(sources));
    sources_.push_back(std::move(sources));
  }
  if (!pairs.empty())
    throw_error("PEFT has no layer for the adapters of '{}': no layer in the files of the model holds it",
                *pairs.begin());
  for (AdaptedLayer& layer : adapted_layers(config, most_sources_ * options.rank)) {
    if (!adapted.contains(layer.name)) continue;
    const std::string name = std::string(kOuter) + layer.name;
    declarations_.push_back({name + std::string(kA), {DType::fp32, layer.down.shape}});
    declarations_.push_back({name + std::string(kB), {DType::fp32, layer.up.shape}});
    layers_.push_back(std::move(layer));
  }
}

// A or B of a layer, in the order of rows of this program.
HostTensor PeftTensors::joined(std::size_t layer, bool is_down) const {
  const Shape& shape = (is_down ? layers_[layer].down : layers_[layer].up).shape;
  HostTensor all(TensorType{DType::fp32, shape});
  const auto width = static_cast<std::size_t>(shape[1]), rank = static_cast<std::size_t>(options_.rank);
  std::size_t first = 0;  // of the ranks of the source
  for (const Source& source : sources_[layer]) {
    const HostTensor own = value_(source.pair + std::string(is_down ? kA : kB));
    const std::size_t begin = is_down ? first * width : static_cast<std::size_t>(source.row) * width + first;
    const std::size_t run = is_down ? width : rank;
    for (std::size_t at = 0; at < own.as<float>().size(); at += run)
      std::ranges::copy(own.as<float>().subspan(at, run), all.as<float>().begin() + begin + at / run * width);
    first += rank;
  }
  return all;
}

HostTensor PeftTensors::value(std::size_t tensor) const {
  const AdaptedLayer& layer = layers_[tensor / 2];
  const bool is_down = tensor % 2 == 0;
  return in_file(is_down ? layer.down : layer.up, joined(tensor / 2, is_down));
}

// By the last parts of their names, where no other layer has them.
std::vector<std::string> PeftTensors::target_modules() const {
  std::set<std::string> ends, names;
  for (const AdaptedLayer& layer : layers_) {
    ends.insert(last_part(layer.name));
    names.insert(layer.name);
  }
  const bool is_clear =
      std::ranges::none_of(others_, [&](const std::string& other) { return ends.contains(last_part(other)); });
  const std::set<std::string>& chosen = is_clear ? ends : names;
  return {chosen.begin(), chosen.end()};
}

Json PeftTensors::config(const fs::path& base) const {
  const auto weights_are_transposed = [](const AdaptedLayer& layer) { return layer.is_transposed; };
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.string()},
          {"r", most_sources_ * options_.rank},
          {"lora_alpha", static_cast<double>(most_sources_) * options_.alpha},
          {"lora_dropout", 0.0},
          {"target_modules", target_modules()},
          {"bias", "none"},
          {"fan_in_fan_out", std::ranges::any_of(layers_, weights_are_transposed)},
          {"inference_mode", true},
          {"modules_to_save", nullptr},
          {"use_rslora", false}};
}

bool is_peft_adapter(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kPeftConfigFile, ignored);
}

fs::path base_of_adapter(const fs::path& adapter) {
  const Json named = read_config(adapter).value("base_model_name_or_path", Json());
  fs::path base = named.is_string() ? fs::path(named.get<std::string>()) : fs::path();
  if (!base.empty() && is_model(base)) return base;
  std::error_code ignored;
  const fs::path outer = fs::absolute(adapter, ignored).lexically_normal().parent_path();
  fs::path parent = adapter.has_filename() ? outer : outer.parent_path();
  if (is_model(parent)) return parent;
  throw_error(
      "the model {} that the adapter '{}' changes is not there; write its folder into "
      "'base_model_name_or_path' of {}",
      quote_name(base.string()), adapter.string(), kPeftConfigFile);
}

PeftAdapter::PeftAdapter(const fs::path& folder, const TransformerConfig& config)
    : prefix_(family_of(config).names.model), file_(folder / kPeftTensorFile) {
  const Json fields = read_config(folder);
  check_kind(fields, folder);
  rank_ = number_in<std::int64_t>(fields, "r", folder);
  const auto rank = static_cast<double>(rank_);
  scale_ = number_in<double>(fields, "lora_alpha", folder) /
           (fields.value("use_rslora", Json(false)) == true ? std::sqrt(rank) : rank);
  layers_ = adapted_layers(config, rank_);
}

std::string PeftAdapter::tensor_name(const AdaptedLayer& layer, std::string_view half) const {
  std::vector<std::string> names = {fmt::format("{}{}{}", kOuter, layer.name, half)};
  if (layer.name.starts_with(prefix_))
    names.push_back(fmt::format("{}{}{}", kOuter, layer.name.substr(prefix_.size()), half));
  const auto found = std::ranges::find_if(names, [&](const std::string& name) { return file_.contains(name); });
  return found == names.end() ? "" : *found;
}

std::string PeftAdapter::problem_of(const AdaptedLayer& layer) const {
  const std::string path = file_.path().string();
  const std::string down = tensor_name(layer, kA), up = tensor_name(layer, kB);
  if (down.empty() != up.empty())
    return fmt::format("'{}' has {} without its {}", path, quote_name(down.empty() ? up : down),
                       down.empty() ? "lora_A" : "lora_B");
  for (const auto& [name, weight] : {std::pair(&down, &layer.down), std::pair(&up, &layer.up)}) {
    if (name->empty()) continue;
    const TensorType& found = file_.type(*name);
    if (found.shape == weight->shape && is_floating(found.dtype)) continue;
    return fmt::format("{} is {} in '{}'; with r = {} this model needs floating numbers as {}", quote_name(*name),
                       found.to_string(), path, rank_, weight->shape.to_string());
  }
  return "";
}

std::vector<std::string> PeftAdapter::problems() const {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const AdaptedLayer& layer : layers_) {
    if (std::string problem = problem_of(layer); !problem.empty()) problems.push_back(std::move(problem));
    for (const std::string_view half : {kA, kB}) known.insert(tensor_name(layer, half));
  }
  for (const std::string& name : file_.names()) {
    if (!known.contains(name))
      problems.push_back(fmt::format("{} of '{}' is of no linear layer of this model: the adapter is of another base",
                                     quote_name(name), file_.path().string()));
  }
  if (file_.names().empty()) problems.push_back(fmt::format("'{}' has no tensors", file_.path().string()));
  return problems;
}

void PeftAdapter::add_to(const std::string& parameter, HostTensor& value) const {
  for (const AdaptedLayer& layer : layers_) {
    const auto begin = layer.rows.find(parameter);
    if (begin == layer.rows.end()) continue;
    const std::string down = tensor_name(layer, kA), up = tensor_name(layer, kB);
    if (down.empty() || up.empty()) continue;
    if (const std::string problem = problem_of(layer); !problem.empty()) throw Error(problem);
    const HostTensor a = in_program(layer.down, file_.read(down)), b = in_program(layer.up, file_.read(up));
    const std::int64_t width = layer.down.shape[1], rows = value.type.elements() / width;
    const std::span<const float> from = a.as<float>(), factors = b.as<float>();
    const std::span<float> to = value.as<float>();
    constexpr std::int64_t kGrainRows = 16;
    parallel_for(rows, kGrainRows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        float* const sums = to.data() + row * width;
        for (std::int64_t k = 0; k < rank_; ++k) {
          const auto factor = static_cast<float>(
              scale_ * static_cast<double>(factors[static_cast<std::size_t>((begin->second + row) * rank_ + k)]));
          const float* const line = from.data() + k * width;
          for (std::int64_t column = 0; column < width; ++column) sums[column] += factor * line[column];
        }
      }
    });
  }
}

}  // namespace ridgepoint
