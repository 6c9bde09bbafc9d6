// What the host sides of the attention kernels share.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/attention/parameters.h"
#include "backends/cuda/kernels/attention/variants.h"
#include "backends/cuda/kernels/variant.h"
#include "ops/attention_form.h"
#include "ops/layout.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {

inline constexpr int kLogSumExpOperand = 5;  // of the backward

struct AttentionSizes {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
};

inline AttentionSizes sizes_of(const Shape& q, const Shape& k) {
  AttentionSizes sizes{1, q[-2], k[-2], q[-1]};
  for (int axis = 0; axis < q.rank() - 2; ++axis) sizes.batch *= q[axis];
  return sizes;
}

// The window, or 0 if it hides no key.
inline std::int64_t hiding_window(const AttentionForm& form, std::int64_t keys) {
  return form.window < keys ? form.window : 0;
}

// How many heads of q read one head of k.
inline Divisor group_of(const TensorLayout& q, const TensorLayout& k) {
  return Divisor(static_cast<std::uint32_t>(heads_per_key_head(q.shape, k.shape)));
}

template <class Pointer>
void set_rows(AttentionRows<Pointer>& rows, const TensorLayout& layout, Divisor group = {}) {
  const std::optional<RowStrides> strides = row_strides(layout);
  if (!strides || strides->row > std::numeric_limits<std::int32_t>::max()) {
    throw Error("attention on a GPU needs rows less than 2^31 elements apart, in one stride over the batch; " +
                    TensorType(layout.dtype, layout.shape).to_string() + " has no such rows; copy it first",
                ErrorKind::unsupported);
  }
  rows.outer = strides->outer;
  rows.inner = strides->inner;
  rows.row = static_cast<std::int32_t>(strides->row);
  rows.group = group;
}

template <class Parameters>
void set_sizes(Parameters& parameters, const KernelSpec& spec, const AttentionSizes& sizes) {
  parameters.queries = static_cast<int>(sizes.queries);
  parameters.keys = static_cast<int>(sizes.keys);
  parameters.width = static_cast<int>(sizes.width);
  const AttentionForm form = attention_form(spec.node.attributes);
  parameters.scale = static_cast<float>(form.scale);
  parameters.causal = form.causal;
  parameters.window = static_cast<int>(hiding_window(form, sizes.keys));
  parameters.soft_cap = static_cast<float>(form.soft_cap);
  const Shape& shape = spec.outputs[0].shape;
  parameters.inner_count = Divisor(shape.rank() > 2 ? static_cast<std::uint32_t>(shape[-3]) : 1);
}

// The tiling of the row that a variant was made of.
template <class Tiling, int kCount>
const Tiling& tiling_of(const AttentionVariant<Tiling> (&rows)[kCount], const KernelVariant& variant) {
  const auto is_same = [&](const auto& row) { return std::string_view(row.entry) == variant.entry; };
  return std::ranges::find_if(rows, is_same)->tiling;
}

inline void require_vectors(std::initializer_list<const void*> operands) {
  if (are_vector_aligned(operands)) return;
  throw Error(
      "attention on a GPU needs operands at multiples of 16 bytes; copy a slice of a tensor to a tensor of its own",
      ErrorKind::unsupported);
}

// The kernels of Hopper (hopper_attention.cpp, hopper_attention_backward.cpp).
bool takes_hopper_operands(const KernelSpec& spec);
// Whether the kernel is for attention of this form to so many keys: for plain scores, a window or a soft cap, and for
// sequences of this length.
bool is_hopper_kernel_of(const KernelVariant& variant, const AttentionForm& form, std::int64_t keys);
// Whether the kernel is the one for a problem of this size on such a card.
bool suits_hopper(const KernelVariant& variant, const CardFacts& card, const Graph& graph, const Node& node);
std::size_t hopper_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card, const KernelSpec& spec);
std::size_t hopper_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                            const KernelSpec& spec);
std::unique_ptr<Kernel> make_hopper_forward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant);
std::unique_ptr<Kernel> make_hopper_backward(CudaContext& context, const KernelSpec& spec,
                                             const KernelVariant& variant);

// Those of fp32 operands and tf32 (hopper_split_attention.cpp).
bool takes_hopper_split(const KernelVariant& variant, const Node& node, const AttentionSizes& sizes);
std::size_t hopper_split_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                                 const KernelSpec& spec);
std::size_t hopper_split_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                                  const KernelSpec& spec);
std::unique_ptr<Kernel> make_hopper_split_forward(CudaContext& context, const KernelSpec& spec,
                                                  const KernelVariant& variant);
std::unique_ptr<Kernel> make_hopper_split_backward(CudaContext& context, const KernelSpec& spec,
                                                   const KernelVariant& variant);

}  // namespace ridgepoint::cuda
