#include "backends/cuda/generator/types.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

struct TypeNames {
  std::string_view memory;
  std::string_view compute;
};

const TypeNames& names(DType dtype) {
  static constexpr std::array<TypeNames, std::size(kAllDTypes) + std::size(kCodeDTypes) + 1> kNames = {{
      {"double", "double"},
      {"float", "float"},
      {"bf16", "float"},
      {"fp16", "float"},
      {"long long", "long long"},
      {"int", "int"},
      {"boolean", "bool"},
      {"dynamic8", "float"},
      {"udynamic8", "float"},
      {"e4m3", "float"},
      {"e5m2", "float"},
      {"low_half", "float"},
  }};
  return kNames[static_cast<std::size_t>(dtype)];
}

// The shortest decimal that reads back as the same bits.
template <typename Float>
std::string floating_literal(Float value, std::string_view suffix) {
  if (std::isnan(value)) return fmt::format("not_a_number(0.0{})", suffix);
  if (std::isinf(value)) return fmt::format("{}positive_infinity(0.0{})", value < 0 ? "-" : "", suffix);
  std::string digits = fmt::format("{}", value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + std::string(suffix);
}

template <typename Integer>
std::string integer_literal(std::int64_t value, std::string_view suffix) {
  // C++ has no literal for it: the digits without the sign exceed the maximum.
  if (value == std::numeric_limits<Integer>::min()) return fmt::format("({}{} - 1)", value + 1, suffix);
  return fmt::format("{}{}", value, suffix);
}

// Names of CUDA's fp32 functions end in f.
std::string call(std::string_view function, DType dtype, const std::string& a) {
  return fmt::format("{}{}({})", function, names(dtype).compute == "float" ? "f" : "", a);
}

}  // namespace

std::string_view memory_type(DType dtype) { return names(dtype).memory; }
std::string_view compute_type(DType dtype) { return names(dtype).compute; }
std::string_view reduction_type(Op op) { return op == Op::reduce_max ? "Max" : "Sum"; }

std::string literal(DType dtype, double value, std::int64_t integer) {
  switch (dtype) {
    case DType::boolean: return value != 0.0 ? "true" : "false";
    case DType::int32: return integer_literal<std::int32_t>(integer, "");
    case DType::int64: return integer_literal<std::int64_t>(integer, "LL");
    case DType::fp64: return floating_literal(value, "");
    default:  // computed in fp32; the value may exceed its range
      return floating_literal(static_cast<float>(value), "f");
  }
}

std::string formula(Op op, DType dtype, const std::string& a, const std::string& b, const std::string& c) {
  switch (op) {
    case Op::copy:
    case Op::detach: return a;
    case Op::cast:
      return dtype == DType::bf16 ? fmt::format("rounded_to_bf16({})", a)
                                  : fmt::format("widen(Narrow<{}>::of({}))", memory_type(dtype), a);
    case Op::neg: return fmt::format("-({})", a);
    case Op::exp: return call("exp", dtype, a);
    case Op::expm1: return call("expm1", dtype, a);
    case Op::log: return call("log", dtype, a);
    case Op::sqrt: return call("sqrt", dtype, a);
    case Op::tanh: return call("tanh", dtype, a);
    case Op::erf: return call("erf", dtype, a);
    case Op::rsqrt: return fmt::format("reciprocal_root({})", a);
    case Op::sigmoid: return fmt::format("sigmoid({})", a);
    case Op::round_away: return fmt::format("round_away({})", a);
    case Op::join_halves: return fmt::format("join_halves({}, {})", a, b);
    case Op::add: return fmt::format("{} + {}", a, b);
    case Op::sub: return fmt::format("{} - {}", a, b);
    case Op::mul: return fmt::format("{} * {}", a, b);
    case Op::div: return fmt::format("{} / {}", a, b);
    case Op::maximum: return fmt::format("maximum({}, {})", a, b);
    case Op::minimum: return fmt::format("minimum({}, {})", a, b);
    case Op::equal: return fmt::format("{} == {}", a, b);
    case Op::less: return fmt::format("{} < {}", a, b);
    case Op::less_equal: return fmt::format("{} <= {}", a, b);
    case Op::where: return fmt::format("{} ? {} : {}", a, b, c);
    default: throw_error(ErrorKind::unsupported, "the kernel generator has no formula for op '{}'", name(op));
  }
}

}  // namespace ridgepoint::cuda
