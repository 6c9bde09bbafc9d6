// What the host sides of the attention kernels share.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/variants.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/variant.h"
#include "ops/attention_form.h"
#include "ops/layout.h"
#include "ridgepoint/core/error.h"

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
                    TensorType{layout.dtype, layout.shape}.to_string() + " has no such rows; copy it first",
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

// One launch of a variant's kernels.
inline Launchable stage_of(CudaContext& context, const KernelVariant& variant, const char* entry, std::int64_t blocks,
                           int threads, int shared_bytes = 0) {
  return {context,
          variant.image,
          entry,
          {.grid_x = static_cast<unsigned>(blocks),
           .block_x = static_cast<unsigned>(threads),
           .shared_bytes = static_cast<unsigned>(shared_bytes)}};
}

inline void require_vectors(std::initializer_list<const void*> operands) {
  if (are_vector_aligned(operands)) return;
  throw Error(
      "attention on a GPU needs operands at multiples of 16 bytes; copy a slice of a tensor to a tensor of its own",
      ErrorKind::unsupported);
}

// The rows of operands and results, of kernels that read them where they lie.
inline void set_all_rows(AttentionForward& attention, const KernelSpec& spec) {
  const Divisor group = group_of(spec.inputs[0], spec.inputs[1]);
  set_rows(attention.q, spec.inputs[0]);
  set_rows(attention.k, spec.inputs[1], group);
  set_rows(attention.v, spec.inputs[2], group);
  set_rows(attention.o, spec.outputs[0]);
}
inline void set_all_rows(AttentionBackward& attention, const KernelSpec& spec) {
  const Divisor group = group_of(spec.inputs[1], spec.inputs[2]);
  set_rows(attention.d_o, spec.inputs[0]);
  set_rows(attention.q, spec.inputs[1]);
  set_rows(attention.k, spec.inputs[2], group);
  set_rows(attention.v, spec.inputs[3], group);
  set_rows(attention.o, spec.inputs[4]);
  set_rows(attention.dq, spec.outputs[0]);
  set_rows(attention.dk, spec.outputs[1]);
  set_rows(attention.dv, spec.outputs[2]);
}

// Their addresses in a launch. Throws Error (unsupported) if one is no multiple of 16 bytes.
inline void set_addresses(AttentionForward& attention, const LaunchArguments& arguments) {
  attention.q.data = arguments.inputs[0];
  attention.k.data = arguments.inputs[1];
  attention.v.data = arguments.inputs[2];
  attention.o.data = arguments.outputs[0];
  attention.log_sum_exp = static_cast<float*>(arguments.outputs[1]);
  require_vectors({attention.q.data, attention.k.data, attention.v.data, attention.o.data});
}
inline void set_addresses(AttentionBackward& attention, const LaunchArguments& arguments) {
  attention.d_o.data = arguments.inputs[0];
  attention.q.data = arguments.inputs[1];
  attention.k.data = arguments.inputs[2];
  attention.v.data = arguments.inputs[3];
  attention.o.data = arguments.inputs[4];
  attention.log_sum_exp = static_cast<const float*>(arguments.inputs[kLogSumExpOperand]);
  attention.dq.data = arguments.outputs[0];
  attention.dk.data = arguments.outputs[1];
  attention.dv.data = arguments.outputs[2];
  require_vectors({attention.d_o.data, attention.q.data, attention.k.data, attention.v.data});
  require_vectors({attention.o.data, attention.dq.data, attention.dk.data, attention.dv.data});
}

// The kernels of Hopper (hopper_attention.cpp).
bool supports_hopper_layouts(const KernelSpec& spec);
// Whether the kernel is for attention of this form to so many keys: for plain scores, a window or a soft cap, and for
// sequences of this length.
bool supports_hopper_form(const KernelVariant& variant, const AttentionForm& form, std::int64_t keys);
// Whether the kernel is the one for a problem of this size on such a card.
bool is_preferred_on_hopper(const KernelVariant& variant, const CardFacts& card, const Graph& graph, const Node& node);
std::size_t hopper_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card, const KernelSpec& spec);
std::size_t hopper_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                            const KernelSpec& spec);
std::unique_ptr<Kernel> make_hopper_forward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant);
std::unique_ptr<Kernel> make_hopper_backward(CudaContext& context, const KernelSpec& spec,
                                             const KernelVariant& variant);

// Those of fp32 operands and tf32 (hopper_split_attention.cpp).
bool supports_hopper_split_form(const KernelVariant& variant, const Node& node, const AttentionSizes& sizes);
std::size_t hopper_split_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                                 const KernelSpec& spec);
std::size_t hopper_split_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                                  const KernelSpec& spec);
std::unique_ptr<Kernel> make_hopper_split_forward(CudaContext& context, const KernelSpec& spec,
                                                  const KernelVariant& variant);
std::unique_ptr<Kernel> make_hopper_split_backward(CudaContext& context, const KernelSpec& spec,
                                                   const KernelVariant& variant);

}  // namespace ridgepoint::cuda
