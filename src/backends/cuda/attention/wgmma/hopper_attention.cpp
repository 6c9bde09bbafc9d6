// Which of Hopper's attention kernels runs what, and the host side of attention_forward_wgmma.cu.
#include "backends/cuda/attention/wgmma/hopper_host.h"

namespace ridgepoint::cuda {
namespace {

// The workspace of the forward where tiles are divided: values and the log-sum-exp of each row of the parts.
struct ForwardWorkspace {
  ForwardWorkspace(const HopperForwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
    if (!tiling.divided) return;
    const std::int64_t rows = kPartsOfBlock * sharing_blocks(tiling, problem, multiprocessors) * tiling.rows;
    value_bytes = static_cast<std::size_t>(rows * tiling.width) * sizeof(float);
    log_sum_exp_bytes = static_cast<std::size_t>(rows) * sizeof(float);
  }
  std::size_t bytes() const { return value_bytes + log_sum_exp_bytes; }

  std::size_t value_bytes = 0, log_sum_exp_bytes = 0;
};

class HopperAttention : public Kernel {
 public:
  HopperAttention(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        tiling_(tiling_of(kHopperForwardVariants, variant)),
        workspace_(tiling_, problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node),
                   context.card().multiprocessors) {
    const AttentionSizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    set_sizes(parameters_, spec, sizes);
    parameters_.window = window_or_longest(parameters_.window, sizes);
    parameters_.tanh_scale = tanh_scale(parameters_.scale, parameters_.soft_cap);
    set_rows(parameters_.o, spec.outputs[0]);
    const std::int64_t blocks = ceil_divide(sizes.queries, tiling_.rows);
    parameters_.blocks = Divisor(static_cast<std::uint32_t>(blocks));
    parameters_.tiles = static_cast<int>(blocks * sizes.batch);
    const std::int64_t set =
        matrices_of_set(tiling_, problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node));
    parameters_.set = Divisor(static_cast<std::uint32_t>(set));
    parameters_.tiles_of_set = Divisor(static_cast<std::uint32_t>(set * blocks));
    const std::int64_t sorted =
        parameters_.causal ? std::min<std::int64_t>(sizes.batch, context.card().multiprocessors) : 1;
    parameters_.sorted = Divisor(static_cast<std::uint32_t>(sorted));
    parameters_.first_sorted = static_cast<int>(sizes.batch - sorted);
    q_ = MappedOperand(spec.inputs[0], tiling_.rows);
    const Divisor group = group_of(spec.inputs[0], spec.inputs[1]);
    k_ = MappedOperand(spec.inputs[1], tiling_.keys, group);
    v_ = MappedOperand(spec.inputs[2], tiling_.keys, group);
    kernel_ = {context.kernel(variant.image, variant.entry),
               variant.entry,
               {.grid_x = static_cast<unsigned>(std::min(parameters_.tiles, context.card().multiprocessors)),
                .block_x = static_cast<unsigned>(tiling_.threads()),
                .shared_bytes = static_cast<unsigned>(tiling_.forward_shared_bytes())}};
    context.allow_shared(kernel_.function, kernel_.shape.shared_bytes);
    if (tiling_.divided) divide(problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node), variant);
  }

  std::string_view name() const override { return kernel_.name; }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    require_vectors({arguments.outputs[0]});
    const CudaContext::Scope scope(context_);
    q_.map(arguments.inputs[0], parameters_.q);
    k_.map(arguments.inputs[1], parameters_.k);
    v_.map(arguments.inputs[2], parameters_.v);
    parameters_.o.data = arguments.outputs[0];
    parameters_.log_sum_exp = static_cast<float*>(arguments.outputs[1]);
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    parameters_.part_values = reinterpret_cast<float*>(workspace);
    if (tiling_.divided) parameters_.part_log_sum_exp = reinterpret_cast<float*>(workspace + workspace_.value_bytes);
    void* pointers[] = {&parameters_};
    context_.launch(kernel_.function, kernel_.shape, pointers, kernel_.name);
    if (!tiling_.divided) return;
    void* combined[] = {&parameters_, &sharing_blocks_};
    context_.launch(combine_.function, combine_.shape, combined, combine_.name);
  }

 private:
  void divide(const HopperProblem& problem, const KernelVariant& variant) {
    parameters_.steps_of_matrix = static_cast<int>(forward_steps(tiling_, problem));
    sharing_blocks_ = static_cast<int>(sharing_blocks(tiling_, problem, context_.card().multiprocessors));
    kernel_.shape.grid_x = static_cast<unsigned>(sharing_blocks_);
    const int pieces = tiling_.groups() * (tiling_.width / kPieceColumns);
    combine_ = {context_.kernel(variant.image, variant.finish_entry),
                variant.finish_entry,
                {.grid_x = static_cast<unsigned>(parameters_.tiles) * static_cast<unsigned>(pieces), .block_x = 128}};
  }

  CudaContext& context_;
  HopperForwardTiling tiling_;
  ForwardWorkspace workspace_;
  HopperAttentionForward parameters_;
  MappedOperand q_, k_, v_;
  int sharing_blocks_ = 0;
  Launchable kernel_, combine_;
};

}  // namespace

// Operands are q, k and v, or in the backward the gradient of o, q, k and v.
bool supports_hopper_layouts(const KernelSpec& spec) {
  const std::size_t operands = spec.node.op == Op::attention ? 3 : 4;
  for (std::size_t i = 0; i < operands; ++i) {
    if (!row_strides(spec.inputs[i]) || !MappedOperand(spec.inputs[i], 1).has_map()) return false;
  }
  const std::size_t k = operands - 2;
  return spec.inputs[k].shape[-2] > 0;
}

namespace {

bool has_scores_of(HopperScores scores, const AttentionForm& form, std::int64_t keys) {
  if (form.soft_cap > 0) return scores == HopperScores::soft_cap;
  return scores == (hiding_window(form, keys) > 0 ? HopperScores::window : HopperScores::plain);
}

// Up to this many keys, forwards of 128 queries or more are the portable kernel's: two of its blocks share a
// multiprocessor, so one computes while the other begins or ends.
constexpr std::int64_t kPortableKeys = 256;

HopperProblem problem_of_node(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const auto q = static_cast<std::size_t>(variant.operand);
  return problem_of(graph.type(node.inputs[q]).shape, graph.type(node.inputs[q + 1]).shape, node);
}

}  // namespace

bool supports_hopper_form(const KernelVariant& variant, const AttentionForm& form, std::int64_t keys) {
  if (variant.op == Op::attention) {
    const HopperForwardTiling& tiling = tiling_of(kHopperForwardVariants, variant);
    const bool is_long_enough = keys > kPortableKeys || tiling.most_keys > 0;
    return has_scores_of(tiling.scores, form, keys) && is_long_enough &&
           (tiling.most_keys == 0 || keys <= tiling.most_keys);
  }
  const HopperBackwardTiling& tiling = tiling_of(kHopperBackwardVariants, variant);
  return has_scores_of(tiling.scores, form, keys) &&
         (!tiling.finishes() || (form.causal && keys <= tiling.most_causal_keys));
}

bool is_preferred_on_hopper(const KernelVariant& variant, const CardFacts& card, const Graph& graph, const Node& node) {
  const HopperProblem problem = problem_of_node(variant, graph, node);
  if (variant.op == Op::attention) {
    const HopperForwardTiling& tiling = tiling_of(kHopperForwardVariants, variant);
    if (tiling.key_groups > 1) return has_few_tiles(tiling, problem, card.multiprocessors);
    return !tiling.divided || suits_division(tiling, problem, card.multiprocessors);
  }
  const HopperBackwardTiling& tiling = tiling_of(kHopperBackwardVariants, variant);
  return !tiling.divided || suits_division(tiling, problem, card.multiprocessors);
}

std::size_t hopper_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                           const KernelSpec& spec) {
  const HopperProblem problem = problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node);
  return ForwardWorkspace(tiling_of(kHopperForwardVariants, variant), problem, card.multiprocessors).bytes();
}

std::unique_ptr<Kernel> make_hopper_forward(CudaContext& context, const KernelSpec& spec,
                                            const KernelVariant& variant) {
  return std::make_unique<HopperAttention>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
