#include "backends/cuda/kernels/low_matmul/swiglu_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/driver/cublaslt.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/low_matmul/two_steps.h"
#include "backends/cuda/matmul/mapping.h"
#include "backends/cuda/matmul/search.h"
#include "backends/cuda/matmul/timing.h"
#include "core/files/disk_cache.h"
#include "core/first_call_clock.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

// One tiling of the kernel for both.
class SwigluKernel : public Kernel {
 public:
  SwigluKernel(CudaContext& context, const SwigluPlan& plan, const SwigluTiling& tiling, std::size_t workspace_bytes)
      : context_(context),
        name_(plan.function_name(tiling)),
        workspace_bytes_(workspace_bytes),
        is_backward_(plan.node().is_backward),
        maps_(plan.maps(tiling)),
        mapped_(maps_.size()) {
    const int multiprocessors = context.card().multiprocessors;
    forward_.product = backward_.product = plan.parameters(tiling, multiprocessors);
    forward_.keeps_halves = plan.node().halves ? 1 : 0;
    function_ = context.kernel("low_matmul/swiglu_matmul_wgmma", name_.c_str());
    shape_.grid_x = static_cast<unsigned>(plan.blocks(tiling, multiprocessors));
    shape_.block_x = LowMatmulTiling::kThreads;
    shape_.shared_bytes = static_cast<unsigned>(plan.shared_bytes(tiling));
    shape_.waits_by_itself = true;
    context.allow_shared(function_, shape_.shared_bytes);
  }

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    const CudaContext::Scope scope(context_);
    const std::array<TensorMap*, 6> forward = {&forward_.product.a, &forward_.product.b, &forward_.product.c,
                                               &forward_.up, &forward_.hidden};
    const std::array<TensorMap*, 6> backward = {&backward_.product.a, &backward_.product.b, &backward_.product.c,
                                                &backward_.gate,      &backward_.up,        &backward_.up_gradient};
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      const SwigluPlan::Mapped& map = maps_[i];
      const void* base = map.is_result ? arguments.outputs[map.index] : arguments.inputs[map.index];
      const void* address = static_cast<const std::byte*>(base) + map.offset * LowMatmulTiling::kElementBytes;
      if (std::exchange(mapped_[i], address) == address) continue;
      *(is_backward_ ? backward : forward)[i] = make_tensor_map(map.shape, address);
    }
    void* list[] = {is_backward_ ? static_cast<void*>(&backward_) : static_cast<void*>(&forward_)};
    context_.launch(function_, shape_, list, name_.c_str());
  }

 private:
  CudaContext& context_;
  std::string name_;
  std::size_t workspace_bytes_;
  bool is_backward_;
  std::vector<SwigluPlan::Mapped> maps_;
  std::vector<const void*> mapped_;  // the addresses of the parameters' maps
  SwigluMatmul forward_;
  SwigluBackwardMatmul backward_;
  LaunchShape shape_;
  CUfunction function_ = nullptr;
};

// The faster of several kernels for one node, on operands of random values.
class SwigluRace {
 public:
  SwigluRace(CudaContext& context, const KernelSpec& spec, const std::vector<std::unique_ptr<Kernel>>& ways)
      : spec_(spec), timer_(context, sizes(spec, ways)) {
    for (const auto& way : ways) {
      launches_.push_back([this, kernel = way.get()](const MatmulAddresses& at) { return launch(*kernel, at); });
    }
  }

  // nullopt if nothing can be measured.
  std::optional<std::size_t> winner() {
    if (!timer_.has_memory()) return std::nullopt;
    for (const MatmulLaunch& launch : launches_) timer_.runs(launch);
    MatmulRace race([this](std::span<const std::size_t> ways, int launches) {
      std::vector<const MatmulLaunch*> batches;
      for (const std::size_t way : ways) batches.push_back(&launches_[way]);
      return timer_.cold_batches(batches, launches);
    });
    race.screen_up_to(launches_.size());
    return race.winner();
  }

 private:
  // The first two operands are a and b of the timer; the others and the results lie in its c.
  static MatmulTimer::Sizes sizes(const KernelSpec& spec, const std::vector<std::unique_ptr<Kernel>>& ways) {
    MatmulTimer::Sizes sizes{.dtype = spec.inputs[0].dtype,
                             .a_bytes = buffer_bytes(spec.inputs[0]),
                             .b_bytes = buffer_bytes(spec.inputs[1])};
    for (const TensorLayout& layout : spec.inputs.subspan(2)) sizes.c_bytes += buffer_bytes(layout);
    for (const TensorLayout& layout : spec.outputs) sizes.c_bytes += buffer_bytes(layout);
    for (const auto& way : ways) sizes.workspace_bytes = std::max(sizes.workspace_bytes, way->workspace_bytes());
    return sizes;
  }

  bool launch(Kernel& kernel, const MatmulAddresses& at) const {
    std::vector<void*> inputs = {const_cast<void*>(at.a), const_cast<void*>(at.b)};
    std::vector<void*> outputs;
    auto* next = static_cast<std::byte*>(at.c);
    const auto place = [&](const TensorLayout& layout) { return std::exchange(next, next + buffer_bytes(layout)); };
    for (const TensorLayout& layout : spec_.inputs.subspan(2)) inputs.push_back(place(layout));
    for (const TensorLayout& layout : spec_.outputs) outputs.push_back(place(layout));
    kernel.launch({inputs.data(), outputs.data(), at.workspace});
    return true;
  }

  const KernelSpec& spec_;
  MatmulTimer timer_;
  std::vector<MatmulLaunch> launches_;
};

std::string choice_key(const CudaContext& context, const SwigluPlan& plan) {
  const CardFacts& card = context.card();
  int driver_version = 0;
  check(context.driver().cuDriverGetVersion(&driver_version), "read the driver's version");
  return fmt::format("{} | cublasLt {} | driver {} | {} sm_{} with {} multiprocessors | {}", kMatmulSearchVersion,
                     cublaslt().cublasLtGetVersion(), driver_version, card.name, card.capability.number(),
                     card.multiprocessors, plan.key());
}

struct SwigluChoices {
  std::mutex mutex;
  std::map<std::string, std::string> by_key;
};
SwigluChoices& swiglu_choices() {
  static SwigluChoices instance;
  return instance;
}

bool has_swiglu(const Graph& graph, const Node& node, bool backward) {
  if (node.body == nullptr || node.inputs.size() != (backward ? 4U : 2U)) return false;
  const std::optional<SwigluNode> swiglu = swiglu_of(*node.body);
  if (!swiglu || swiglu->is_backward != backward) return false;
  constexpr std::int64_t kVector = 8;
  return graph.type(node.inputs[0]).elements() > 0 && swiglu->features > 0 && swiglu->features % kVector == 0 &&
         swiglu->inner > 0 && swiglu->inner % kVector == 0;
}

constexpr KernelVariant swiglu(DType dtype, const char* entry, bool backward) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .accepts = backward ? has_swiglu_backward : has_swiglu_forward,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = "low_matmul/swiglu_matmul_wgmma",
          .entry = entry,
          .layout = swiglu_operand_layout,
          .strided_results = backward,
          .workspace_bytes = swiglu_workspace_bytes,
          .make = make_swiglu};
}

constexpr KernelVariant kSwigluVariants[] = {
    swiglu(DType::bf16, "fused_swiglu_forward_128x128_1x1_bf16", false),
    swiglu(DType::bf16, "fused_swiglu_backward_128x128_1x1_bf16", true),
    swiglu(DType::fp16, "fused_swiglu_forward_128x128_1x1_fp16", false),
    swiglu(DType::fp16, "fused_swiglu_backward_128x128_1x1_fp16", true),
};

}  // namespace

bool has_swiglu_forward(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return has_swiglu(graph, node, false);
}
bool has_swiglu_backward(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return has_swiglu(graph, node, true);
}

OperandLayout swiglu_operand_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::aligned_rows;
}

// That of the library's way, which needs most.
std::size_t swiglu_workspace_bytes(const KernelVariant& /*variant*/, const CardFacts& /*card*/,
                                   const KernelSpec& spec) {
  const SwigluNode swiglu = *swiglu_of(*spec.node.body);
  const Graph& body = spec.node.body->graph;
  const Node& product = body.node(swiglu.product);
  const TensorLayout layout =
      swiglu.halves ? spec.outputs[*swiglu.halves] : dense_layout(body.type(product.outputs[0]));
  const MatmulProblem problem = read_matmul_problem({body, product, spec.inputs.first(2), std::span(&layout, 1)});
  return (swiglu.halves ? 0 : buffer_bytes(layout)) + map_matmul(problem).workspace_bytes();
}

std::vector<std::unique_ptr<Kernel>> swiglu_ways(CudaContext& context, const KernelSpec& spec,
                                                 const std::optional<SwigluPlan>& plan) {
  std::vector<std::unique_ptr<Kernel>> ways;
  ways.push_back(std::make_unique<TwoSteps>(context, spec, *swiglu_of(*spec.node.body)));
  if (!plan) return ways;
  for (const SwigluTiling& tiling : plan->candidates()) {
    ways.push_back(std::make_unique<SwigluKernel>(context, *plan, tiling, ways.front()->workspace_bytes()));
  }
  return ways;
}

std::unique_ptr<Kernel> make_swiglu(CudaContext& context, const KernelSpec& spec, const KernelVariant& /*variant*/) {
  const CudaContext::Scope scope(context);
  const std::optional<SwigluPlan> plan = SwigluPlan::of(*swiglu_of(*spec.node.body), spec);
  std::vector<std::unique_ptr<Kernel>> ways = swiglu_ways(context, spec, plan);
  if (!plan) return std::move(ways.front());
  const std::vector<SwigluTiling> tilings = plan->candidates();
  const std::string key = choice_key(context, *plan);
  const std::lock_guard lock(swiglu_choices().mutex);
  std::string& chosen = swiglu_choices().by_key[key];
  const auto find = [&](const std::string& text) {
    const auto found = std::ranges::find(tilings, text, &SwigluTiling::to_text);
    return found == tilings.end() ? std::size_t{0} : static_cast<std::size_t>(found - tilings.begin()) + 1;
  };
  constexpr std::string_view kInTwoSteps = "in two steps";
  const DiskCache cache = DiskCache::in_user_folder("matmul");
  if (chosen.empty()) {
    const std::string known = cache.load(key).value_or("");
    if (known == kInTwoSteps || find(known) != 0) chosen = known;
  }
  if (chosen.empty()) {
    const InStage in_stage(FirstCallStage::choices);
    ways.front()->prepare();
    const std::optional<std::size_t> winner = SwigluRace(context, spec, ways).winner();
    chosen = winner.value_or(0) == 0 ? std::string(kInTwoSteps) : tilings[*winner - 1].to_text();
    if (winner) cache.store(key, chosen);
  }
  return std::move(ways[find(chosen)]);
}

std::span<const KernelVariant> swiglu_variants() { return kSwigluVariants; }

}  // namespace ridgepoint::cuda
