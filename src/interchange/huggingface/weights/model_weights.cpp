#include "interchange/huggingface/weights/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/text/nearest.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/weights/published_weights.h"
#include "interchange/huggingface/weights/weight_rows.h"
#include "interchange/safetensors_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// The name of a layer norm's parameter in the first files of BERT, as transformers reads it; empty for other names.
std::string first_name(const std::string& name) {
  constexpr std::string_view kWeight = "LayerNorm.weight", kBias = "LayerNorm.bias";
  if (name.ends_with(kWeight)) return name.substr(0, name.rfind('.')) + ".gamma";
  return name.ends_with(kBias) ? name.substr(0, name.rfind('.')) + ".beta" : "";
}

// The names under which files have a tensor: with the prefix, without it, and as part of a model with images.
std::vector<std::string> possible_names(const std::string& name, const TransformerConfig& config) {
  const Family& family = family_of(config);
  const std::string model(family.names.model);
  std::vector<std::string> names = {name};
  const std::string inner = name.starts_with(model) ? name.substr(model.size()) : "";
  if (!inner.empty()) names.push_back(inner);
  for (const std::string_view outer : modules_of_text()) {
    names.push_back(std::string(outer) + name);
    if (!inner.empty()) names.push_back(model + std::string(outer) + inner);
  }
  // Some programs keep the head of a tied pair.
  if (config.architecture.tied_head && inner == fmt::format("{}.weight", family.names.embedding))
    names.emplace_back("lm_head.weight");
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (std::string first = first_name(names[i]); !first.empty()) names.push_back(std::move(first));
  }
  return names;
}

HostTensor as_fp32(const HostTensor& stored) {
  if (is_floating(stored.type.dtype)) return convert(stored, DType::fp32);
  HostTensor numbers({DType::fp32, stored.type.shape});
  std::ranges::transform(stored.as<std::int64_t>(), numbers.as<float>().begin(),
                         [](std::int64_t number) { return static_cast<float>(number); });
  return numbers;
}

}  // namespace

bool has_foreign_names(const TensorFiles& files) {
  std::set<std::string> ends, modules;
  for (const Family* family : families()) {
    const WeightNames& names = family->names;
    ends.insert(fmt::format("{}.weight", names.embedding));
    // This program's own files have "attn." and "mixer.", too.
    if ((names.attention != "attn" && names.attention != "mixer") || !names.qkv.empty())
      modules.insert(fmt::format("{}.{}{}", names.attention, names.qkv, names.qkv.empty() ? "" : "."));
  }
  return std::ranges::any_of(files.names(), [&](const std::string& name) {
    return std::ranges::any_of(ends, [&](const std::string& end) { return ("." + name).ends_with("." + end); }) ||
           std::ranges::any_of(modules, [&](const auto& module) { return name.find(module) != std::string::npos; });
  });
}

ModelWeights::ModelWeights(const std::filesystem::path& path, TransformerConfig config)
    : files_(path),
      config_(std::move(config)),
      weights_(stored_weights(config_)),
      parameters_(parameters_of(weights_)),
      constants_(parameters_of(weights_, true)) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    for (std::size_t j = 0; j < weights_[i].parts.size(); ++j)
      places_[weights_[i].parts[j].parameter].push_back({i, j});
    for (std::string& name : possible_names(weights_[i].name, config_)) {
      if (!files_.contains(name)) continue;
      if (is_quantised(files_, name)) {
        for (std::string& other : names_beside(name)) beside_.insert(std::move(other));
      }
      names_.emplace(weights_[i].name, std::move(name));
      break;
    }
  }
}

const std::string* ModelWeights::stored_name(const StoredWeight& weight) const {
  const auto found = names_.find(weight.name);
  return found == names_.end() ? nullptr : &found->second;
}

std::string ModelWeights::problem_of(const StoredWeight& weight) const {
  const std::string* name = stored_name(weight);
  const std::string path = files_.path().string();
  if (name == nullptr)
    return fmt::format("'{}' is not in '{}'; the model needs it as {}", weight.name, path, weight.shape.to_string());
  const TensorType& found = files_.type(*name);
  if (is_quantised(files_, *name) && weight.own_shape().rank() == 2 && weight.experts() == 0) {
    try {
      quantised(weight);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const bool has_kind = weight.has_integers ? found.dtype == DType::int64 : is_floating(found.dtype);
  if (!has_kind || !(found.shape == weight.shape))
    return fmt::format("'{}' is {} in '{}'; the model needs {} numbers as {}", *name, found.to_string(), path,
                       weight.has_integers ? "int64" : "floating", weight.shape.to_string());
  return "";
}

// Tables that transformers once stored, the head of a tied pair, and the parts of a model beside its text model.
bool ModelWeights::is_expected(const std::string& stored) const {
  const Family& family = family_of(config_);
  return stored.ends_with("rotary_emb.inv_freq") || beside_.contains(stored) ||
         (config_.architecture.tied_head && stored.ends_with("lm_head.weight")) ||
         std::ranges::any_of(family.other_ends, [&](auto end) { return !end.empty() && stored.ends_with(end); }) ||
         std::ranges::any_of(modules_beside_text(),
                             [&](auto module) { return stored.find(module) != std::string::npos; });
}

std::vector<std::string> ModelWeights::problems() const {
  std::vector<std::string> problems;
  std::unordered_set<std::string_view> used;
  for (const StoredWeight& weight : weights_) {
    if (const std::string* name = stored_name(weight)) used.insert(*name);
    if (std::string problem = problem_of(weight); !problem.empty()) problems.push_back(std::move(problem));
  }
  for (const std::string& name : files_.names()) {
    if (!used.contains(name) && !is_expected(name))
      problems.push_back(
          fmt::format("{} of '{}' is no weight of this model", quote_name(name), files_.path().string()));
  }
  return problems;
}

std::vector<std::string> ModelWeights::notes() const {
  std::set<std::string_view> types;
  for (const auto& [name, stored] : names_) {
    const DType dtype = files_.type(stored).dtype;
    if (is_floating(dtype)) types.insert(ridgepoint::name(dtype));
  }
  if (types.size() < 2) return {};
  std::string list;
  for (const std::string_view type : types) list += fmt::format("{}{}", list.empty() ? "" : ", ", type);
  return {fmt::format("'{}' has weights in {}; all are read as fp32", files_.path().string(), list)};
}

HostTensor ModelWeights::read(const std::string& parameter) const {
  const auto places = places_.find(parameter);
  if (places == places_.end()) {
    std::vector<std::string_view> known;
    for (const ParameterDeclaration& one : parameters_) known.push_back(one.name);
    refuse_name(parameter, "the model has no parameter '{}'", known);
  }
  const auto declared = std::ranges::find(parameters_, parameter, &ParameterDeclaration::name);
  HostTensor tensor(declared != parameters_.end()
                        ? declared->type
                        : std::ranges::find(constants_, parameter, &ParameterDeclaration::name)->type);
  for (const Place& place : places->second) {
    const StoredWeight& weight = weights_[place.weight];
    if (const std::string problem = problem_of(weight); !problem.empty()) throw Error(problem);
    WeightRows(weight, place.part).read(read_stored(weight), tensor);
  }
  return tensor;
}

// A transposed weight is quantised as [out, in].
QuantisedTensor ModelWeights::quantised(const StoredWeight& weight) const {
  const Shape shape = weight.own_shape();
  return {files_, *stored_name(weight), shape[weight.is_transposed ? 1 : 0], shape[weight.is_transposed ? 0 : 1]};
}

HostTensor ModelWeights::read_stored(const StoredWeight& weight) const {
  if (!is_quantised(files_, *stored_name(weight))) return as_fp32(files_.read(*stored_name(weight)));
  const std::vector<float> elements = quantised(weight).widened();
  HostTensor stored({DType::fp32, weight.shape});
  const std::span<float> to = stored.as<float>();
  if (!weight.is_transposed) {
    std::ranges::copy(elements, to.begin());
    return stored;
  }
  const auto in = static_cast<std::size_t>(weight.shape[0]), out = static_cast<std::size_t>(weight.shape[1]);
  for (std::size_t row = 0; row < out; ++row) {
    for (std::size_t column = 0; column < in; ++column) to[column * out + row] = elements[row * in + column];
  }
  return stored;
}

std::optional<HostTensor> ModelWeights::read_packed(const std::string& parameter, const PackedMatrix& matrix) const {
  const auto places = places_.find(parameter);
  if (places == places_.end() || places->second.size() != 1) return std::nullopt;
  const StoredWeight& weight = weights_[places->second[0].weight];
  const WeightPart& part = weight.parts[places->second[0].part];
  const std::string* name = stored_name(weight);
  if (name == nullptr || !is_quantised(files_, *name)) return std::nullopt;
  if (!has_packed_parts(weight, matrix.format, weights_) || matrix.order != part.order()) return std::nullopt;
  HostTensor tensor;
  tensor.data = quantised(weight).packed(matrix, part.places.first);
  tensor.type = {DType::packed, {static_cast<std::int64_t>(tensor.data.size())}};
  return tensor;
}

}  // namespace ridgepoint
