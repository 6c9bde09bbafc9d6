// Attributes of products in 8 bits: those of a matmul with `compute` = fp8, which the pass quantise_products carries
// out, and those of quantise.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

inline constexpr const char* kLeftCodes = "left_codes";
inline constexpr const char* kRightCodes = "right_codes";

// The dtypes of the codes of both operands: these two attributes, absent for e4m3.
struct Float8Operands {
  DType left = DType::e4m3;
  DType right = DType::e4m3;
};

// Empty for a product that is not in 8 bits.
std::optional<Float8Operands> float8_operands(const Attributes& attributes);
// Also sets `compute`.
void set_float8_operands(Attributes& attributes, const Float8Operands& operands);

// The attribute `layout` of quantise. Throws Error for another value than rows, columns and both.
QuantiseLayout quantise_layout(const Attributes& attributes);

// What quantise_rows makes of matrices side by side, from primitives: the codes of each, and the scales of the rows of
// all together.
std::vector<Value> codes_of_rows(Graph& graph, std::span<const Value> parts, DType codes);

}  // namespace ridgepoint
