// The host side of attention_split_forward_wgmma.cu and attention_split_backward_wgmma.cu: flash attention of fp32
// operands on Hopper. The copy engine reads their parts from the workspace, so operands need no tensor map.
#include "backends/cuda/attention/common/host.h"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cuda {
namespace {

// Consecutive areas of a workspace. Tiles have multiples of 1,024 bytes, so those that are added first are aligned.
class WorkspaceAreas {
 public:
  std::size_t add(std::int64_t count, std::size_t element_bytes) {
    const std::size_t at = bytes_;
    bytes_ += static_cast<std::size_t>(count) * element_bytes;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Where the parts of an operand lie in a workspace.
struct PartsArea {
  std::int64_t tile_count = 0;
  std::size_t tiles = 0, largest = 0;

  void add_tiles(WorkspaceAreas& areas, std::int64_t count, int tile_bytes) {
    tile_count = count;
    tiles = areas.add(count, static_cast<std::size_t>(tile_bytes));
  }
  void add_largest(WorkspaceAreas& areas, int per_tile = 1) {
    largest = areas.add(tile_count * per_tile, sizeof(float));
  }
  AttentionParts in(void* workspace) const {
    char* at = static_cast<char*>(workspace);
    return {at + tiles, reinterpret_cast<float*>(at + largest)};
  }
};

struct SplitForwardWorkspace {
  SplitForwardWorkspace(const HopperSplitForwardTiling& tiling, const KernelSpec& spec) {
    const Shape& of_queries = spec.inputs[0].shape;
    const Shape& of_keys = spec.inputs[1].shape;
    const AttentionSizes sizes = sizes_of(of_queries, of_keys);
    const std::int64_t key_tiles =
        ceil_divide(sizes.keys, tiling.keys) * (sizes.batch / heads_per_key_head(of_queries, of_keys));
    query_blocks = sizes.batch * ceil_divide(sizes.queries, tiling.rows);
    q.add_tiles(areas, query_blocks * tiling.groups(), tiling.query_bytes() / tiling.groups());
    for (PartsArea* area : {&k, &v}) area->add_tiles(areas, key_tiles, tiling.key_bytes());
    q.add_largest(areas, 64);  // of each row
    for (PartsArea* area : {&k, &v}) area->add_largest(areas);
  }

  std::int64_t query_blocks = 0;
  WorkspaceAreas areas;
  PartsArea q, k, v;
};

struct SplitBackwardWorkspace {
  SplitBackwardWorkspace(const HopperSplitBackwardTiling& tiling, const KernelSpec& spec) {
    const Shape& of_queries = spec.inputs[1].shape;
    const Shape& of_keys = spec.inputs[2].shape;
    const AttentionSizes sizes = sizes_of(of_queries, of_keys);
    key_blocks = ceil_divide(sizes.keys, tiling.keys);
    query_blocks = sizes.batch * ceil_divide(sizes.queries, tiling.rows);
    const std::int64_t key_tiles = key_blocks * (sizes.batch / heads_per_key_head(of_queries, of_keys));
    for (PartsArea* area : {&d_o, &q}) area->add_tiles(areas, query_blocks, tiling.query_bytes());
    for (PartsArea* area : {&k, &v}) area->add_tiles(areas, key_tiles, tiling.key_bytes());
    dq_sums = areas.add(query_blocks * tiling.rows * tiling.width, sizeof(float));
    for (PartsArea* area : {&d_o, &q, &k, &v}) area->add_largest(areas);
    products = areas.add(sizes.batch * sizes.queries, sizeof(float));
    semaphores = areas.add(query_blocks, sizeof(unsigned));
    started = areas.add(1, sizeof(unsigned));
  }

  std::int64_t key_blocks = 0, query_blocks = 0;  // of a matrix, and of all
  WorkspaceAreas areas;
  PartsArea d_o, q, k, v;
  std::size_t dq_sums = 0, products = 0, semaphores = 0, started = 0;
};

constexpr int kSplitThreads = 256;  // as in attention_parts.cuh

// How many matrices run side by side, so that the blocks that see most keys begin first: as many as have their keys and
// values in half of an L2 cache of 50 MiB.
int matrices_together(const HopperSplitForwardTiling& tiling, const AttentionSizes& sizes) {
  constexpr std::int64_t kCacheBytes = std::int64_t{25} << 20;
  const std::int64_t bytes = 2 * ceil_divide(sizes.keys, tiling.keys) * tiling.key_bytes();
  return static_cast<int>(std::clamp<std::int64_t>(kCacheBytes / bytes, 1, sizes.batch));
}

// Two launches: the parts of q, k and v, and attention.
class HopperSplitAttention : public Kernel {
 public:
  HopperSplitAttention(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : workspace_(tiling_of(kHopperSplitForwardVariants, variant), spec) {
    const HopperSplitForwardTiling& tiling = tiling_of(kHopperSplitForwardVariants, variant);
    const AttentionSizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    AttentionForward& rest = parameters_.rest;
    set_sizes(rest, spec, sizes);
    set_all_rows(rest, spec);
    parameters_.batch = static_cast<int>(sizes.batch);
    parameters_.key_batch = parameters_.batch / static_cast<int>(rest.k.group.value);
    if (rest.causal) parameters_.together = matrices_together(tiling, sizes);
    const std::int64_t tiles = std::max(workspace_.q.tile_count, workspace_.k.tile_count);
    prepare_ = stage_of(context, variant, variant.prepare_entry, tiles, kSplitThreads);
    prepare_.shape.grid_y = 3;
    attend_ = stage_of(context, variant, variant.entry, workspace_.query_blocks, tiling.threads(),
                       tiling.forward_shared_bytes());
  }

  std::string_view name() const override { return attend_.name; }
  std::size_t workspace_bytes() const override { return workspace_.areas.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    set_addresses(parameters_.rest, arguments);
    parameters_.q = workspace_.q.in(arguments.workspace);
    parameters_.k = workspace_.k.in(arguments.workspace);
    parameters_.v = workspace_.v.in(arguments.workspace);
    prepare_.launch(parameters_);
    attend_.launch(parameters_);
  }

 private:
  SplitForwardWorkspace workspace_;
  HopperSplitForward parameters_;
  Launchable prepare_, attend_;
};

// Three launches: the parts of the operands and sum(do o) of each query; the gradients, with q's as sums; and q's.
class HopperSplitGradient : public Kernel {
 public:
  HopperSplitGradient(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : workspace_(tiling_of(kHopperSplitBackwardVariants, variant), spec) {
    const HopperSplitBackwardTiling& tiling = tiling_of(kHopperSplitBackwardVariants, variant);
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    set_operands(spec, sizes);
    constexpr int kRowsToPrepare = kSplitThreads / 8;  // as in attention_products.cuh
    const std::int64_t blocks = std::max(
        {workspace_.q.tile_count, workspace_.k.tile_count, ceil_divide(sizes.batch * sizes.queries, kRowsToPrepare)});
    prepare_ = stage_of(context, variant, variant.prepare_entry, blocks, kSplitThreads);
    prepare_.shape.grid_y = 5;
    differentiate_ = stage_of(context, variant, variant.entry, workspace_.key_blocks * sizes.batch, tiling.threads(),
                              tiling.backward_shared_bytes());
    finish_ = stage_of(context, variant, variant.finish_entry, workspace_.query_blocks,
                       HopperSplitBackwardTiling::kGroups * 128);
  }

  std::string_view name() const override { return differentiate_.name; }
  std::size_t workspace_bytes() const override { return workspace_.areas.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    set_pointers(arguments);
    prepare_.launch(parameters_);
    differentiate_.launch(parameters_);
    finish_.launch(parameters_.rest);
  }

 private:
  void set_operands(const KernelSpec& spec, const AttentionSizes& sizes) {
    AttentionBackward& rest = parameters_.rest;
    set_sizes(rest, spec, sizes);
    set_all_rows(rest, spec);
    rest.batch = static_cast<int>(sizes.batch);
    parameters_.key_batch = rest.batch / static_cast<int>(rest.k.group.value);
  }

  void set_pointers(const LaunchArguments& arguments) {
    AttentionBackward& rest = parameters_.rest;
    set_addresses(rest, arguments);
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    rest.dq_sums = reinterpret_cast<float*>(workspace + workspace_.dq_sums);
    rest.products = reinterpret_cast<float*>(workspace + workspace_.products);
    rest.semaphores = reinterpret_cast<unsigned*>(workspace + workspace_.semaphores);
    rest.started = reinterpret_cast<unsigned*>(workspace + workspace_.started);
    parameters_.d_o = workspace_.d_o.in(workspace);
    parameters_.q = workspace_.q.in(workspace);
    parameters_.k = workspace_.k.in(workspace);
    parameters_.v = workspace_.v.in(workspace);
  }

  SplitBackwardWorkspace workspace_;
  HopperSplitBackward parameters_;
  Launchable prepare_, differentiate_, finish_;
};

}  // namespace

// Forward and backward must have the same scores, bit for bit, so the conditions are the same for both.
bool supports_hopper_split_form(const KernelVariant& variant, const Node& node, const AttentionSizes& sizes) {
  const int parts = node.op == Op::attention ? tiling_of(kHopperSplitForwardVariants, variant).parts
                                             : tiling_of(kHopperSplitBackwardVariants, variant).parts;
  if ((parts == 1) != is_tf32(node) || sums_key_gradients(node)) return false;
  const AttentionForm form = attention_form(node.attributes);
  // With fewer keys the portable kernels are as fast, because they need no launch before them. They hold no wide heads.
  constexpr std::int64_t kShortKeys = 64;
  constexpr std::int64_t kWidestPortable = 128;
  return (sizes.keys > kShortKeys || sizes.width > kWidestPortable) && form.soft_cap == 0 &&
         hiding_window(form, sizes.keys) == 0;
}

std::size_t hopper_split_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& /*card*/,
                                                 const KernelSpec& spec) {
  return SplitForwardWorkspace(tiling_of(kHopperSplitForwardVariants, variant), spec).areas.bytes();
}
std::size_t hopper_split_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& /*card*/,
                                                  const KernelSpec& spec) {
  return SplitBackwardWorkspace(tiling_of(kHopperSplitBackwardVariants, variant), spec).areas.bytes();
}

std::unique_ptr<Kernel> make_hopper_split_forward(CudaContext& context, const KernelSpec& spec,
                                                  const KernelVariant& variant) {
  return std::make_unique<HopperSplitAttention>(context, spec, variant);
}
std::unique_ptr<Kernel> make_hopper_split_backward(CudaContext& context, const KernelSpec& spec,
                                                   const KernelVariant& variant) {
  return std::make_unique<HopperSplitGradient>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
