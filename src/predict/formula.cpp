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

}  // namespace

std::string shape_in_symbols(const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape.dims()) text += (text.empty() ? "" : " ") + symbol_of(dim);
  return text;
}

std::string bytes_formula(const TensorType& type) {
  std::vector<Factor> factors;
  for (const Dim& dim : type.shape.dims()) {
    for (const auto& [symbol, power] : factors_of(dim)) {
      const auto same = std::ranges::find(factors, symbol, &Factor::first);
      if (same == factors.end()) {
        factors.emplace_back(symbol, power);
      } else {
        same->second += power;
      }
    }
  }
  std::string text = std::to_string(size_bytes(type.dtype));
  for (const auto& [symbol, power] : factors) {
    if (power > 0) text += " " + symbol + (power > 1 ? "^" + std::to_string(power) : "");
  }
  for (const auto& [symbol, power] : factors) {
    if (power < 0) text += " / " + symbol;
  }
  return text;
}

}  // namespace ridgepoint
