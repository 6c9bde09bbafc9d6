#include "measure/compare/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridgepoint {
namespace {

// The command is not listed: a foreign record has none, and the times say what was measured.
constexpr std::array<std::string_view, 36> kFields = {"mode",
                                                      "dtype",
                                                      "compile",
                                                      "allocator",
                                                      "attention",
                                                      "checkpoint",
                                                      "batch",
                                                      "context",
                                                      "model.name",
                                                      "model.layers",
                                                      "model.d_model",
                                                      "model.d_ff",
                                                      "model.heads",
                                                      "model.vocab",
                                                      "device.memory_limit_bytes",
                                                      "threads",
                                                      "keys",
                                                      "causal",
                                                      "as",
                                                      "card",
                                                      "model.kv_heads",
                                                      "window",
                                                      "soft_cap",
                                                      "cold_cache",
                                                      "detect_anomaly",
                                                      "optimizer",
                                                      "momentum",
                                                      "weight_decay",
                                                      "master_weights",
                                                      "frozen",
                                                      "lora",
                                                      "accumulate",
                                                      "parallel.data",
                                                      "parallel.shard",
                                                      "parallel.reduce_dtype",
                                                      "parallel.bucket_bytes"};

// "torch 2.11.0 eager" is "torch eager".
std::string without_version(const std::string& engine) {
  const std::size_t first = engine.find(' ');
  if (first == std::string::npos) return engine;
  const std::size_t second = engine.find(' ', first + 1);
  const std::string rest = second == std::string::npos ? "" : engine.substr(second);
  return engine.substr(0, first) + rest;
}

}  // namespace

std::vector<ConfigurationField> configuration_of(const Record& record,
                                                 const std::optional<std::set<std::string>>& known, bool with_engine) {
  Record without_samples = record;
  // Records of schemas without it have 0.
  if (record.model.kv_heads == 0) without_samples.model.kv_heads = record.model.heads;
  without_samples.training_step.reset();
  if (record.training_step) {
    without_samples.training_step.emplace().cold_cache = record.training_step->cold_cache;
    without_samples.training_step->detect_anomaly = record.training_step->detect_anomaly;
    without_samples.training_step->parallel = record.training_step->parallel;
  }
  const Json json = parse_json(to_json(without_samples));
  std::vector<ConfigurationField> fields;
  for (const std::string_view name : kFields) {
    if (known && !known->contains(std::string(name))) continue;
    const Json& value = field_of(json, name);
    fields.push_back({std::string(name), value.is_string() ? value.get<std::string>() : dump_json(value)});
  }
  if (with_engine) fields.push_back({"engine", without_version(record.engine)});
  return fields;
}

const Json& field_of(const Json& record, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return record.at(std::string(name));
  return record.at(std::string(name.substr(0, dot))).at(std::string(name.substr(dot + 1)));
}

}  // namespace ridgepoint
