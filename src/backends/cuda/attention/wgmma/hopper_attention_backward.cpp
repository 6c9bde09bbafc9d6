// The host side of attention_backward_wgmma.cu: the backward of flash attention on Hopper.
#include "backends/cuda/attention/wgmma/hopper_host.h"

namespace ridgepoint::cuda {
namespace {

// The workspace of the backward, as GradientWorkspace in attention.cpp; where blocks of keys are divided, the sums of
// dq come in slices, and those of dk and dv in parts.
struct BackwardWorkspace {
  BackwardWorkspace(const HopperBackwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
    if (tiling.divided) division = divide_backward(tiling, problem, multiprocessors);
    blocks = ceil_divide(problem.queries, tiling.rows);
    const std::int64_t key_parts =
        tiling.divided ? ceil_divide(problem.keys, tiling.keys) * problem.groups * ceil_divide(blocks, division.chunk)
                       : 0;
    sum_bytes = static_cast<std::size_t>(division.slices * problem.matrices * blocks * tiling.rows) *
                static_cast<std::size_t>(tiling.padded_width()) * sizeof(float);
    key_sum_bytes = static_cast<std::size_t>(key_parts * 2 * tiling.keys * tiling.width) * sizeof(float);
    product_bytes = static_cast<std::size_t>(problem.matrices * problem.queries) * sizeof(float);
    semaphores = static_cast<std::size_t>(division.slices * problem.matrices * blocks);
  }
  std::size_t bytes() const { return sum_bytes + key_sum_bytes + product_bytes + (semaphores + 1) * sizeof(unsigned); }

  BackwardDivision division;
  std::int64_t blocks = 0;  // of queries, in a matrix
  std::size_t sum_bytes, key_sum_bytes, product_bytes, semaphores;
};

// Three launches, as those of AttentionGradient in attention.cpp; two if the last block of keys writes dq.
class HopperAttentionGradient : public Kernel {
 public:
  HopperAttentionGradient(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        tiling_(tiling_of(kHopperBackwardVariants, variant)),
        problem_(problem_of(spec.inputs[1].shape, spec.inputs[2].shape, spec.node)),
        workspace_(tiling_, problem_, context.card().multiprocessors) {
    set_operands(spec);
    set_division();
    query_blocks_ = static_cast<int>(workspace_.blocks * workspace_.division.slices);
    constexpr int kRowsToPrepare = 32;  // for each block, as in attention_products.cuh
    prepare_ = stage_of(context_, variant, variant.prepare_entry,
                        ceil_divide(problem_.matrices * problem_.queries, kRowsToPrepare), 8 * kRowsToPrepare);
    const std::int64_t key_blocks = ceil_divide(problem_.keys, tiling_.keys) * problem_.groups *
                                    (tiling_.divided ? ceil_divide(workspace_.blocks, workspace_.division.chunk) : 1);
    differentiate_ = stage_of(context_, variant, variant.entry,
                              std::min<std::int64_t>(key_blocks, context.card().multiprocessors), tiling_.threads());
    differentiate_.shape.shared_bytes = static_cast<unsigned>(tiling_.backward_shared_bytes());
    context.allow_shared(differentiate_.function, differentiate_.shape.shared_bytes);
    if (variant.finish_entry == nullptr) return;
    const std::int64_t tiles =
        problem_.matrices * workspace_.blocks * (tiling_.padded_width() / 64 * tiling_.rows / 64);
    finish_ = stage_of(context_, variant, variant.finish_entry, tiling_.divided ? pieces(tiles) : tiles, 128);
  }

  std::string_view name() const override { return differentiate_.name; }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    AttentionBackward& rest = parameters_.rest;
    require_vectors(
        {arguments.inputs[0], arguments.inputs[4], arguments.outputs[0], arguments.outputs[1], arguments.outputs[2]});
    const CudaContext::Scope scope(context_);
    d_o_.map(arguments.inputs[0], parameters_.d_o);
    q_.map(arguments.inputs[1], parameters_.q);
    k_.map(arguments.inputs[2], parameters_.k);
    v_.map(arguments.inputs[3], parameters_.v);
    rest.d_o.data = arguments.inputs[0];
    rest.o.data = arguments.inputs[4];
    rest.log_sum_exp = static_cast<const float*>(arguments.inputs[kLogSumExpOperand]);
    rest.dq.data = arguments.outputs[0];
    rest.dk.data = arguments.outputs[1];
    rest.dv.data = arguments.outputs[2];
    if (rest.pairs > 0) {
      require_vectors({arguments.inputs[kCosinesOfAttention], arguments.inputs[kSinesOfAttention]});
      rest.cosines = static_cast<const float*>(arguments.inputs[kCosinesOfAttention]);
      rest.sines = static_cast<const float*>(arguments.inputs[kSinesOfAttention]);
    }
    set_workspace(static_cast<std::byte*>(arguments.workspace));
    void* prepared[] = {&rest, &query_blocks_};
    context_.launch(prepare_.function, prepare_.shape, prepared, prepare_.name);
    void* differentiated[] = {&parameters_};
    context_.launch(differentiate_.function, differentiate_.shape, differentiated, differentiate_.name);
    if (finish_.function == nullptr) return;
    void* finished[] = {&rest};
    context_.launch(finish_.function, finish_.shape, finished, finish_.name);
  }

 private:
  void set_operands(const KernelSpec& spec) {
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    AttentionBackward& rest = parameters_.rest;
    set_sizes(rest, spec, sizes);
    rest.window = window_or_longest(rest.window, sizes);
    parameters_.tanh_scale = tanh_scale(rest.scale, rest.soft_cap);
    rest.batch = static_cast<int>(sizes.batch);
    set_rows(rest.d_o, spec.inputs[0]);
    set_rows(rest.o, spec.inputs[4]);
    set_rows(rest.dq, spec.outputs[0]);
    const Divisor group = group_of(spec.inputs[1], spec.inputs[2]);
    const bool sums = sums_key_gradients(spec.node);
    set_rows(rest.dk, spec.outputs[1], sums ? group : Divisor());
    set_rows(rest.dv, spec.outputs[2], sums ? group : Divisor());
    if (has_rotary_tables(spec.node)) rest.pairs = static_cast<int>(spec.inputs[kCosinesOfAttention].shape[1]);
    rest.summed_heads = static_cast<int>(problem_.matrices / problem_.groups);
    d_o_ = MappedOperand(spec.inputs[0], tiling_.rows);
    q_ = MappedOperand(spec.inputs[1], tiling_.rows);
    k_ = MappedOperand(spec.inputs[2], tiling_.keys, group);
    v_ = MappedOperand(spec.inputs[3], tiling_.keys, group);
  }

  void set_division() {
    AttentionBackward& rest = parameters_.rest;
    const std::int64_t heads = heads_of_set(tiling_, problem_, context_.card().multiprocessors);
    rest.set = Divisor(static_cast<std::uint32_t>(heads));
    rest.numbers_of_set = Divisor(static_cast<std::uint32_t>(heads * ceil_divide(problem_.keys, tiling_.keys)));
    rest.groups = Divisor(static_cast<std::uint32_t>(problem_.groups));
    rest.chunk = Divisor(static_cast<std::uint32_t>(workspace_.division.chunk));
    rest.slices = static_cast<int>(workspace_.division.slices);
  }

  void set_workspace(std::byte* at) {
    AttentionBackward& rest = parameters_.rest;
    rest.dq_sums = reinterpret_cast<float*>(at);
    at += workspace_.sum_bytes;
    rest.key_sums = reinterpret_cast<float*>(at);
    at += workspace_.key_sum_bytes;
    rest.products = reinterpret_cast<float*>(at);
    at += workspace_.product_bytes;
    rest.semaphores = reinterpret_cast<unsigned*>(at);
    rest.started = rest.semaphores + workspace_.semaphores;
  }

  // Of 32 columns: of tiles of dq, which have 64, and of the tiles of dk and dv.
  std::int64_t pieces(std::int64_t query_tiles) const {
    const std::int64_t key_tiles = ceil_divide(problem_.keys, tiling_.keys) * problem_.groups * 2 * (tiling_.keys / 64);
    return query_tiles * (64 / kPieceColumns) + key_tiles * (tiling_.width / kPieceColumns);
  }

  CudaContext& context_;
  HopperBackwardTiling tiling_;
  HopperProblem problem_;
  BackwardWorkspace workspace_;
  HopperAttentionBackward parameters_;
  MappedOperand d_o_, q_, k_, v_;
  int query_blocks_ = 0;
  Launchable prepare_, differentiate_, finish_;
};

}  // namespace

std::size_t hopper_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                            const KernelSpec& spec) {
  const HopperProblem problem = problem_of(spec.inputs[1].shape, spec.inputs[2].shape, spec.node);
  return BackwardWorkspace(tiling_of(kHopperBackwardVariants, variant), problem, card.multiprocessors).bytes();
}

std::unique_ptr<Kernel> make_hopper_backward(CudaContext& context, const KernelSpec& spec,
                                             const KernelVariant& variant) {
  return std::make_unique<HopperAttentionGradient>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
