#include "ops/float8_product.h"

#include <string>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

constexpr const char* kCompute = "compute";
constexpr const char* kFp8 = "fp8";

DType codes_of(const Attributes& attributes, const char* key) {
  return dtype_from_name(attributes.get_or<std::string>(key, std::string(name(DType::e4m3))));
}

void set_codes(Attributes& attributes, const char* key, DType codes) {
  if (codes == DType::e4m3) {
    attributes.erase(key);
  } else {
    attributes.set(key, std::string(name(codes)));
  }
}

}  // namespace

std::optional<Float8Operands> float8_operands(const Attributes& attributes) {
  if (attributes.get_or<std::string>(kCompute, "") != kFp8) return std::nullopt;
  return Float8Operands{codes_of(attributes, kLeftCodes), codes_of(attributes, kRightCodes)};
}

void set_float8_operands(Attributes& attributes, const Float8Operands& operands) {
  attributes.set(kCompute, std::string(kFp8));
  set_codes(attributes, kLeftCodes, operands.left);
  set_codes(attributes, kRightCodes, operands.right);
}

QuantiseLayout quantise_layout(const Attributes& attributes) {
  const auto& layout = attributes.get<std::string>("layout");
  require(layout == "rows" || layout == "columns" || layout == "both",
          [&] { return "the layout is rows, columns or both, not '" + layout + "'"; });
  return {.rows = layout != "columns", .columns = layout != "rows"};
}

}  // namespace ridgepoint
