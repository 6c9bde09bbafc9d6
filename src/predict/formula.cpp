#include "predict/formula.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ridgepoint {
namespace {

// A symbol and its power, which may be negative.
using Factor = std::pair<std::string, int>;

std::string symbol_of(const Dim& dim) { return dim.label != 0 ? std::string(1, dim.label) : std::to_string(dim.size); }

std::vector<Factor> factors_of(const Dim& dim) {
  if (dim.label == 0 && dim.size == 1) return {};
  if (dim.label == 'T') return {{"B", 1}, {"S", 1}};
  if (dim.label == 'd') return {{"D", 1}, {"H", -1}};
  return {{symbol_of(dim), 1}};
}

// Of the symbols of a label; 0 if they have none.
std::int64_t size_of(char label, const SymbolSizes& sizes) {
  const auto of = [&](char symbol) {
    const auto found = sizes.find(symbol);
    return found == sizes.end() ? std::int64_t{0} : found->second;
  };
  if (label == 'T') return of('B') * of('S');
  if (label == 'd') return of('H') == 0 || of('D') % of('H') != 0 ? 0 : of('D') / of('H');
  return of(label);
}

}  // namespace

SymbolSizes symbol_sizes(const WorkloadDescription& workload) {
  const WorkloadDescription::Model& model = workload.model;
  return {{'B', workload.batch}, {'S', workload.context},
          {'D', model.d_model},  {'H', model.heads},
          {'V', model.vocab},    {'F', model.d_ff},
          {'N', model.kv_heads}, {'G', model.heads / std::max<std::int64_t>(1, model.kv_heads)}};
}

std::string shape_in_symbols(const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape.dims()) text += (text.empty() ? "" : " ") + symbol_of(dim);
  return text;
}

std::string bytes_formula(const TensorType& type, const SymbolSizes& sizes) {
  std::vector<Factor> factors;
  auto number = static_cast<std::int64_t>(size_bytes(type.dtype));
  for (Dim dim : type.shape.dims()) {
    const std::int64_t size = size_of(dim.label, sizes);
    const bool is_multiple = size > 0 && dim.size > 0 && dim.size % size == 0;
    if (is_multiple) number *= dim.size / size;
    if (!sizes.empty() && !is_multiple) dim.label = 0;
    for (const auto& [symbol, power] : factors_of(dim)) {
      const auto same = std::ranges::find(factors, symbol, &Factor::first);
      if (same == factors.end()) {
        factors.emplace_back(symbol, power);
      } else {
        same->second += power;
      }
    }
  }
  std::string text = std::to_string(number);
  for (const auto& [symbol, power] : factors) {
    if (power > 0) text += " " + symbol + (power > 1 ? "^" + std::to_string(power) : "");
  }
  for (const auto& [symbol, power] : factors) {
    if (power < 0) text += " / " + symbol;
  }
  return text;
}

}  // namespace ridgepoint
