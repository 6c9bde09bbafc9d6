// linear_attention and its derivative: the host side of linear_attention.cuh. Operands and results [...,S,D] have any
// layout with aligned rows, those whose rows are not whole vectors of 16 bytes are dense; g, beta and their gradients
// are dense. All floating dtypes; rows of q and k of up to 256 elements.
#include "ops/linear_attention_form.h"

#include <algorithm>

#include "backends/cuda/attention/common/host.h"
#include "backends/cuda/attention/linear/parameters.h"
#include "backends/cuda/hand_written.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

// The kernels of linear_attention_<dtype>.cu, which names the same tilings.
struct LinearVariant {
  DType dtype;
  LinearTiling tiling;
  KernelRate rate, backward_rate;
  const char *image, *prepare, *forward, *states, *reverse, *backward;
  const char *wide_forward = nullptr, *wide_states = nullptr, *wide_reverse = nullptr;  // with two slices in a block
};

#define RIDGEPOINT_LINEAR_SCANS(name) \
  "linear_attention_forward_chunked_" name, "linear_attention_states_" name, "linear_attention_reverse_" name
#define RIDGEPOINT_LINEAR_VARIANT(dtype, chunk, width, bytes, rate, backward_rate, ...)                           \
  {                                                                                                               \
    DType::dtype, {chunk, width, bytes}, rate, backward_rate, "linear_attention_" #dtype,                         \
        "linear_attention_prepare_" #dtype "_" #width, RIDGEPOINT_LINEAR_SCANS(#dtype "_" #width),                \
        "linear_attention_backward_chunked_" #dtype "_" #width __VA_OPT__(, RIDGEPOINT_LINEAR_SCANS(__VA_ARGS__)) \
  }

// What the latency of the scans and the traffic of the states leave of the tensor cores. Measured on an H100 in bf16,
// for the layers of Qwen3-Next and Nemotron-H over 8,192 tokens; the rate of FMA was not measured.
constexpr ProductRate kLowRate{PeakRate::half, 0.066, 0.5, 30e-6}, kLowBackwardRate{PeakRate::half, 0.058, 0.5, 30e-6};
constexpr ProductRate kFmaRate{PeakRate::fp32, 0.1, 0.5, 30e-6};

constexpr LinearVariant kVariants[] = {
    RIDGEPOINT_LINEAR_VARIANT(bf16, 64, 128, 2, kLowRate, kLowBackwardRate, "bf16_128_wide"),
    RIDGEPOINT_LINEAR_VARIANT(bf16, 64, 256, 2, kLowRate, kLowBackwardRate),
    RIDGEPOINT_LINEAR_VARIANT(fp16, 64, 128, 2, kLowRate, kLowBackwardRate, "fp16_128_wide"),
    RIDGEPOINT_LINEAR_VARIANT(fp16, 64, 256, 2, kLowRate, kLowBackwardRate),
    RIDGEPOINT_LINEAR_VARIANT(fp32, 32, 128, 4, kFmaRate, kFmaRate),
    RIDGEPOINT_LINEAR_VARIANT(fp32, 16, 256, 4, kFmaRate, kFmaRate),
    RIDGEPOINT_LINEAR_VARIANT(fp64, 16, 128, 8, kFmaRate, kFmaRate),
    RIDGEPOINT_LINEAR_VARIANT(fp64, 16, 256, 8, kFmaRate, kFmaRate),
};

// The row that a variant was made of.
const LinearVariant& row_of(const KernelVariant& variant) {
  return *std::ranges::find_if(kVariants, [&](const LinearVariant& row) {
    return row.dtype == variant.dtype && row.tiling.width == variant.tiling.width;
  });
}

bool is_backward(const Node& node) { return node.op == Op::linear_attention_backward; }

LinearAttentionSizes linear_sizes(const KernelSpec& spec) {
  const std::size_t k = is_backward(spec.node) ? 2 : 1;
  return {spec.inputs[k].shape, spec.inputs[k + 1].shape};
}

// The shared memory of the largest block of a launch, and how many chunks it holds: two, of which one is loaded while
// the other is computed, or one.
int shared_bytes_of(const LinearTiling& tiling, bool backward, bool delta, int stages) {
  const int scan = tiling.scan_shared_bytes(delta, true, kLinearSlice, stages);
  return std::max({tiling.prepare_shared_bytes(), scan, backward ? tiling.gradient_shared_bytes(stages) : 0});
}

// The arrays of the workspace one behind another, from address 0 on. Returns their bytes.
std::size_t place_arrays(LinearAttention& p, const KernelSpec& spec, const LinearTiling& tiling) {
  const auto cells = static_cast<std::size_t>(linear_sizes(spec).batch) * static_cast<std::size_t>(p.heads) *
                     static_cast<std::size_t>(p.chunks);
  std::size_t bytes = 0;
  const auto place = [&](void*& array, bool is_needed, int bytes_of_cell) {
    array = reinterpret_cast<void*>(bytes);
    if (is_needed) bytes += cells * static_cast<std::size_t>(bytes_of_cell);
  };
  const bool backward = is_backward(spec.node);
  const int square = tiling.chunk * tiling.chunk * tiling.element_bytes;
  const int values = p.slices * tiling.chunk * kLinearSlice * tiling.element_bytes;
  const int state = p.slices * tiling.width * kLinearSlice * tiling.element_bytes;
  place(p.decays, true, tiling.decay_bytes());
  place(p.scores, true, square);
  place(p.inverses, p.delta, square);
  place(p.errors, backward && p.delta, values);
  place(p.states, backward, state);
  place(p.gradients, backward, state);
  return bytes;
}

bool in_vectors(DType dtype, std::int64_t width) {
  return width * static_cast<std::int64_t>(size_bytes(dtype)) % kVectorBytes == 0;
}

LinearAttention parameters_of(const KernelSpec& spec, const LinearTiling& tiling) {
  const LinearAttentionSizes sizes = linear_sizes(spec);
  const LinearAttentionForm form = linear_attention_form(spec.node.attributes);
  LinearAttention p;
  p.heads = checked_int(sizes.heads, "the number of heads");
  p.key_heads = checked_int(sizes.key_heads, "the number of heads of keys");
  p.tokens = checked_int(sizes.tokens, "the number of tokens");
  p.chunks = static_cast<int>(ceil_divide(sizes.tokens, tiling.chunk));
  p.key_width = static_cast<int>(sizes.key_width);
  p.value_width = checked_int(sizes.value_width, "the width of a value");
  p.slices = static_cast<int>(ceil_divide(sizes.value_width, kLinearSlice));
  p.scale = form.scale;
  p.delta = form.delta;
  const DType dtype = spec.inputs[0].dtype;
  p.in_vectors = in_vectors(dtype, sizes.key_width) && in_vectors(dtype, sizes.value_width);
  return p;
}

class LinearAttentionKernel : public Kernel {
 public:
  LinearAttentionKernel(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : is_backward_(is_backward(spec.node)), name_(variant.entry) {
    const LinearVariant& row = row_of(variant);
    const LinearTiling& tiling = row.tiling;
    parameters_ = parameters_of(spec, tiling);
    workspace_bytes_ = place_arrays(parameters_, spec, tiling);
    parameters_.scan_stages = parameters_.gradient_stages = variant.tiling.columns;
    const LinearAttentionSizes sizes = linear_sizes(spec);
    const std::size_t first = is_backward_ ? 1 : 0;
    set_rows(parameters_.q, spec.inputs[first]);
    set_rows(parameters_.k, spec.inputs[first + 1]);
    set_rows(parameters_.v, spec.inputs[first + 2]);
    const std::int64_t batch = parameters_.chunks == 0 ? 0 : sizes.batch;
    const auto stage = [&](const char* entry, int blocks, std::int64_t heads, int shared_bytes) {
      stages_.push_back({context,
                         row.image,
                         entry,
                         {.grid_x = static_cast<unsigned>(blocks),
                          .grid_y = checked_grid_y(batch * heads, 1, "the number of heads of a batch"),
                          .block_x = LinearTiling::kThreads,
                          .shared_bytes = static_cast<unsigned>(shared_bytes)}});
    };
    // Where there are more blocks than multiprocessors, blocks of two slices, which read q and k half as often.
    const CardFacts& card = context.card();
    const auto shared_bytes = [&](bool queries, int columns) {
      return tiling.scan_shared_bytes(parameters_.delta, queries, columns, parameters_.scan_stages);
    };
    const bool is_wide = row.wide_forward != nullptr && parameters_.slices > 1 &&
                         parameters_.slices * batch * sizes.heads > card.multiprocessors &&
                         static_cast<std::size_t>(shared_bytes(true, kWideSlice)) <= card.shared_bytes_per_block;
    const int columns = is_wide ? kWideSlice : kLinearSlice;
    const auto scan = [&](const char* narrow, const char* wide, bool queries) {
      stage(is_wide ? wide : narrow, static_cast<int>(ceil_divide(sizes.value_width, columns)), sizes.heads,
            shared_bytes(queries, columns));
    };
    stage(row.prepare, parameters_.chunks, sizes.key_heads, tiling.prepare_shared_bytes());
    if (!is_backward_) {
      set_rows(parameters_.o, spec.outputs[0]);
      scan(row.forward, row.wide_forward, true);
      return;
    }
    set_rows(parameters_.d_o, spec.inputs[0]);
    set_rows(parameters_.dq, spec.outputs[0]);
    set_rows(parameters_.dk, spec.outputs[1]);
    set_rows(parameters_.dv, spec.outputs[2]);
    scan(row.states, row.wide_states, false);
    scan(row.reverse, row.wide_reverse, true);
    stage(row.backward, parameters_.chunks, sizes.key_heads, tiling.gradient_shared_bytes(parameters_.gradient_stages));
  }

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    LinearAttention p = parameters_;
    void* const* in = arguments.inputs;
    void* const* out = arguments.outputs;
    if (is_backward_) p.d_o.data = *in++;
    p.q.data = in[0];
    p.k.data = in[1];
    p.v.data = in[2];
    p.g = in[3];
    p.beta = in[4];
    if (is_backward_) {
      p.dq.data = out[0];
      p.dk.data = out[1];
      p.dv.data = out[2];
      p.dg = out[3];
      p.d_beta = out[4];
    } else {
      p.o.data = out[0];
    }
    const auto workspace = reinterpret_cast<std::uintptr_t>(arguments.workspace);
    for (void** array : {&p.decays, &p.scores, &p.inverses, &p.errors, &p.states, &p.gradients})
      *array = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(*array) + workspace);
    p.in_vectors = p.in_vectors && are_vector_aligned({in[0], in[1], in[2], p.d_o.data, out[0], p.dk.data, p.dv.data});
    for (const Launchable& stage : stages_) {
      if (!stage.is_empty()) stage.launch(p);
    }
  }

 private:
  bool is_backward_;
  const char* name_;
  LinearAttention parameters_;  // with arrays from address 0 on
  std::size_t workspace_bytes_ = 0;
  std::vector<Launchable> stages_;
};

std::size_t linear_workspace_bytes(const KernelVariant& variant, const CardFacts& /*card*/, const KernelSpec& spec) {
  const LinearVariant& row = row_of(variant);
  LinearAttention p = parameters_of(spec, row.tiling);
  return place_arrays(p, spec, row.tiling);
}

template <bool kDelta>
bool supports_linear(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const auto q = static_cast<std::size_t>(variant.operand);
  return linear_attention_form(node.attributes).delta == kDelta &&
         graph.type(node.inputs[q]).shape[-1] <= variant.tiling.width;
}

OperandLayout linear_layout(const Graph& graph, const Node& node, int index) {
  const int first = is_backward(node) ? 1 : 0;
  const auto width_of = [&](int at) { return graph.type(node.inputs[static_cast<std::size_t>(at)]).shape[-1]; };
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const bool has_vectors = in_vectors(dtype, width_of(first)) && in_vectors(dtype, width_of(first + 2));
  return index < first + 3 && has_vectors ? OperandLayout::aligned_rows : OperandLayout::dense;
}

// In a tiling, rows are tokens and columns the chunks that a block holds.
KernelVariant linear_variant(const LinearVariant& row, Op op, bool delta, int stages) {
  const bool backward = op == Op::linear_attention_backward;
  return {.op = op,
          .dtype = row.dtype,
          .operand = backward ? 1 : 0,  // q
          .supports_node = delta ? supports_linear<true> : supports_linear<false>,
          .tiling = {row.tiling.width, row.tiling.chunk, stages, LinearTiling::kThreads,
                     shared_bytes_of(row.tiling, backward, delta, stages)},
          .image = row.image,
          .entry = backward ? row.backward : row.forward,
          .prepare_entry = row.prepare,
          .finish_entry = backward ? row.reverse : nullptr,
          .layout = linear_layout,
          .strided_results = true,
          .workspace_bytes = linear_workspace_bytes,
          .rate = backward ? row.backward_rate : row.rate,
          .make = make_variant<LinearAttentionKernel>};
}

}  // namespace

std::span<const KernelVariant> linear_attention_variants() {
  static const std::vector<KernelVariant> variants = [] {
    std::vector<KernelVariant> made;
    for (const Op op : {Op::linear_attention, Op::linear_attention_backward}) {
      for (const LinearVariant& row : kVariants) {
        for (const bool delta : {false, true}) {
          for (const int stages : {2, 1}) made.push_back(linear_variant(row, op, delta, stages));
        }
      }
    }
    return made;
  }();
  return variants;
}

}  // namespace ridgepoint::cuda
