#include "backends/cpu/attention/blocks.h"

#include "ops/attention_form.h"

namespace ridgepoint::cpu {
namespace {

// A NaN has a magnitude above infinity's bits. The loop has no early exit, so that the compiler vectorises it.
template <typename Bits>
bool any_above(const Bits* elements, std::int64_t count, Bits infinity) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i) found |= (elements[i] & kMagnitude) > infinity;
  return found;
}

template <typename Bits>
const void* cleared(const void* elements, std::int64_t count, Bits infinity, std::vector<std::byte>& buffer) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  const auto* from = static_cast<const Bits*>(elements);
  if (!any_above(from, count, infinity)) return elements;
  buffer.resize(static_cast<std::size_t>(count) * sizeof(Bits));
  auto* to = reinterpret_cast<Bits*>(buffer.data());
  for (std::int64_t i = 0; i < count; ++i) to[i] = (from[i] & kMagnitude) > infinity ? Bits{0} : from[i];
  return to;
}

}  // namespace

TiledProblem read_tiled_problem(const KernelSpec& spec, std::size_t q) {
  const Shape& queries = spec.inputs[q].shape;
  TiledProblem problem;
  problem.dtype = spec.inputs[q].dtype;
  for (int axis = 0; axis < queries.rank() - 2; ++axis) problem.batch *= queries[axis];
  problem.queries = queries[-2];
  problem.keys = spec.inputs[q + 1].shape[-2];
  problem.width = queries[-1];
  problem.group = heads_per_key_head(queries, spec.inputs[q + 1].shape);
  const AttentionForm form = attention_form(spec.node.attributes);
  problem.scale = static_cast<float>(form.scale);
  problem.causal = form.causal;
  problem.window = form.window < problem.keys ? form.window : 0;
  problem.soft_cap = static_cast<float>(form.soft_cap);
  return problem;
}

BlockElements::BlockElements(DType dtype, DType operand_dtype)
    : dtype_(dtype),
      operand_dtype_(operand_dtype),
      load_(tile::load_function(dtype, 1)),
      store_(tile::store_function(dtype, 1)) {}

void* BlockElements::at(const void* tensor, std::int64_t first) const {
  return const_cast<std::byte*>(static_cast<const std::byte*>(tensor) +
                                first * static_cast<std::int64_t>(size_bytes(dtype_)));
}

const void* BlockElements::operand(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const {
  return widens() ? fp32(tensor, first, count, widened) : at(tensor, first);
}

const float* BlockElements::fp32(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const {
  if (dtype_ == DType::fp32) return static_cast<const float*>(at(tensor, first));
  load_(widened, at(tensor, first), nullptr, nullptr, count, 1);
  return widened;
}

const void* BlockElements::without_nan(const void* elements, std::int64_t count, std::vector<std::byte>& buffer) const {
  if (operand_dtype_ == DType::fp32) return cleared<std::uint32_t>(elements, count, 0x7F80'0000, buffer);
  return cleared<std::uint16_t>(elements, count, 0x7F80, buffer);  // bf16
}

float* BlockElements::sums(void* tensor, std::int64_t first, float* buffer) const {
  return in_place() ? static_cast<float*>(at(tensor, first)) : buffer;
}

void BlockElements::store(const float* sums, void* tensor, std::int64_t first, std::int64_t count) const {
  if (!in_place()) store_(at(tensor, first), sums, nullptr, nullptr, count, 1);
}

}  // namespace ridgepoint::cpu
