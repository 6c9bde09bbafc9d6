#include "backends/cuda/products/epilogues/fused_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/products/choice/cublaslt.h"
#include "backends/cuda/products/choice/race.h"
#include "backends/cuda/products/choice/search.h"
#include "backends/cuda/products/choice/timing.h"
#include "backends/cuda/products/epilogues/two_steps.h"
#include "core/files/disk_cache.h"
#include "core/first_call_clock.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

// One tiling of the kernel for both. Operands and results that are not aligned as it needs them are computed otherwise.
class FusedProduct : public Kernel {
  using Of = EpilogueLaunch::Field::Of;

 public:
  FusedProduct(CudaContext& context, std::vector<EpilogueLaunch> launches, std::size_t workspace_bytes)
      : context_(context), workspace_bytes_(workspace_bytes) {
    for (EpilogueLaunch& launch : launches) {
      const CUfunction function = context.kernel(launch.image, launch.function.c_str());
      context.allow_shared(function, launch.shape.shared_bytes);
      const auto uses_flags = [](const EpilogueLaunch::Field& field) { return field.of == Of::block_flags; };
      if (std::ranges::any_of(launch.fields, uses_flags)) block_flags_ = block_flags(context);
      std::vector<const void*> addresses(launch.fields.size());
      launches_.push_back({std::move(launch), function, std::move(addresses)});
    }
  }

  std::string_view name() const override { return launches_[0].what.function; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void set_otherwise(std::unique_ptr<Kernel> kernel) { otherwise_ = std::move(kernel); }

  void launch(const LaunchArguments& arguments) override {
    const CudaContext::Scope scope(context_);
    const auto aligned = [&](const Launch& launch) { return are_aligned(launch.what, arguments); };
    if (otherwise_ != nullptr && !std::ranges::all_of(launches_, aligned)) return launch_otherwise(arguments);
    for (Launch& launch : launches_) {
      for (std::size_t i = 0; i < launch.addresses.size(); ++i) {
        const EpilogueLaunch::Field& field = launch.what.fields[i];
        const void* address = address_of(field, arguments, block_flags_);
        if (launch.addresses[i] == address) continue;
        set(launch.what.parameters, field, address);
        launch.addresses[i] = address;
      }
      void* list[] = {launch.what.parameters.bytes.data()};
      const char* name = launch.what.function.c_str();
      if (launch.what.is_cooperative) {
        context_.launch_together(launch.function, launch.what.shape, list, name);
      } else {
        context_.launch(launch.function, launch.what.shape, list, name);
      }
    }
  }

 private:
  struct Launch {
    EpilogueLaunch what;
    CUfunction function = nullptr;
    std::vector<const void*> addresses;  // that the parameters have
  };

  // Op by op, where the compiler refuses what follows the product, the other kernel may need more workspace.
  void launch_otherwise(const LaunchArguments& arguments) {
    otherwise_->prepare();
    if (otherwise_->workspace_bytes() > workspace_bytes_)
      throw_error(ErrorKind::unsupported,
                  "{} needs operands at multiples of {} bytes; copy a slice of a tensor to a tensor of its "
                  "own",
                  name(), kVectorBytes);
    otherwise_->launch(arguments);
  }

  static void set(EpilogueLaunch::Parameters& parameters, const EpilogueLaunch::Field& field, const void* address) {
    std::byte* const to = parameters.bytes.data() + field.place;
    if (field.map) {
      const TensorMap map = make_tensor_map(*field.map, address);
      std::memcpy(to, &map, sizeof map);
    } else {
      std::memcpy(to, &address, sizeof address);
    }
  }

  CudaContext& context_;
  std::size_t workspace_bytes_;
  unsigned* block_flags_ = nullptr;
  std::vector<Launch> launches_;
  std::unique_ptr<Kernel> otherwise_;
};

// The fastest of several kernels for one node, on operands of random values; integers are 0. One that the GPU refuses
// to launch, as a cooperative one without room for all blocks at once, is not the fastest.
class FusedProductRace {
 public:
  FusedProductRace(CudaContext& context, const KernelSpec& spec, const std::vector<std::unique_ptr<Kernel>>& ways)
      : spec_(spec), timer_(context, sizes(spec, ways)) {
    for (const auto& way : ways)
      launches_.push_back([this, kernel = way.get()](const MatmulAddresses& at) { return launch(*kernel, at); });
    if (timer_.has_memory()) clear_integers(context);
  }

  // nullopt if nothing can be measured.
  std::optional<std::size_t> winner() {
    if (!timer_.has_memory()) return std::nullopt;
    for (const MatmulLaunch& launch : launches_) timer_.runs(launch);
    MatmulRace race([this](std::span<const std::size_t> ways, const BatchLaunches& launches) {
      std::vector<const MatmulLaunch*> batches;
      for (const std::size_t way : ways) batches.push_back(&launches_[way]);
      return timer_.cold_batches(batches, launches);
    });
    race.screen_up_to(launches_.size());
    return race.winner();
  }

 private:
  struct Places {
    std::vector<void*> inputs, outputs;
  };

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

  Places places(const MatmulAddresses& at) const {
    Places places{{const_cast<void*>(at.a), const_cast<void*>(at.b)}, {}};
    auto* next = static_cast<std::byte*>(at.c);
    const auto place = [&](const TensorLayout& layout) { return std::exchange(next, next + buffer_bytes(layout)); };
    for (const TensorLayout& layout : spec_.inputs.subspan(2)) places.inputs.push_back(place(layout));
    for (const TensorLayout& layout : spec_.outputs) places.outputs.push_back(place(layout));
    return places;
  }

  void clear_integers(CudaContext& context) const {
    for (std::size_t copy = 0; copy < timer_.copies(); ++copy) {
      const Places at = places(timer_.operands(copy));
      for (std::size_t i = 2; i < spec_.inputs.size(); ++i) {
        if (!is_floating(spec_.inputs[i].dtype)) context.fill_zero(at.inputs[i], buffer_bytes(spec_.inputs[i]));
      }
    }
  }

  bool launch(Kernel& kernel, const MatmulAddresses& at) const {
    const Places of = places(at);
    try {
      kernel.launch({of.inputs.data(), of.outputs.data(), at.workspace});
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  const KernelSpec& spec_;
  MatmulTimer timer_;
  std::vector<MatmulLaunch> launches_;
};

std::string choice_key(const CudaContext& context, const EpiloguePlan& plan) {
  const CardFacts& card = context.card();
  int driver_version = 0;
  check(context.driver().cuDriverGetVersion(&driver_version), "read the driver's version");
  return fmt::format("{} | cublasLt {} | driver {} | {} sm_{} with {} multiprocessors | {}", kMatmulSearchVersion,
                     cublaslt().cublasLtGetVersion(), driver_version, card.name, card.capability.number(),
                     card.multiprocessors, plan.key());
}

struct FusedProductChoices {
  std::mutex mutex;
  std::map<std::string, std::string> by_key;
};
FusedProductChoices& fused_product_choices() {
  static FusedProductChoices instance;
  return instance;
}

bool may_take_two_steps(const EpiloguePlan* plan) { return plan == nullptr || plan->may_take_two_steps(); }

// Two steps, where they are a way, and the tilings: a text for each of fused_product_ways().
std::vector<std::string> texts_of_ways(const EpiloguePlan& plan) {
  std::vector<std::string> texts;
  if (plan.may_take_two_steps()) texts.emplace_back("in two steps");
  for (const EpilogueTiling& tiling : plan.candidates()) texts.push_back(tiling.to_text());
  return texts;
}

// The index of the fastest. Measures once.
std::size_t choose(CudaContext& context, const KernelSpec& spec, const EpiloguePlan& plan,
                   const std::vector<std::unique_ptr<Kernel>>& ways) {
  const std::vector<std::string> texts = texts_of_ways(plan);
  const auto find = [&](const std::string& text) {
    return static_cast<std::size_t>(std::ranges::find(texts, text) - texts.begin());
  };
  const auto is_way = [&](const std::string& text) { return find(text) < texts.size(); };
  const std::string key = choice_key(context, plan);
  const std::lock_guard lock(fused_product_choices().mutex);
  std::string& chosen = fused_product_choices().by_key[key];
  const DiskCache cache = DiskCache::in_user_folder("matmul");
  if (chosen.empty()) {
    const std::string known = cache.load(key).value_or("");
    if (is_way(known)) chosen = known;
  }
  if (chosen.empty()) {
    const InStage in_stage(FirstCallStage::choices);
    ways.front()->prepare();
    const std::optional<std::size_t> winner = FusedProductRace(context, spec, ways).winner();
    chosen = texts[winner.value_or(0)];
    if (winner) chosen = cache.store_first(key, chosen, is_way);
  }
  return find(chosen);
}

}  // namespace

std::size_t fused_product_workspace(const CardFacts& card, const KernelSpec& spec, const EpiloguePlan* plan) {
  return std::max(may_take_two_steps(plan) ? ProductSteps(spec).workspace_bytes(card) : 0,
                  plan == nullptr ? 0 : plan->workspace_bytes());
}

std::vector<std::unique_ptr<Kernel>> fused_product_ways(CudaContext& context, const KernelSpec& spec,
                                                        const EpiloguePlan* plan) {
  std::vector<std::unique_ptr<Kernel>> ways;
  std::size_t workspace_bytes = plan == nullptr ? 0 : plan->workspace_bytes();
  if (may_take_two_steps(plan)) {
    ways.push_back(std::make_unique<TwoSteps>(context, spec, workspace_bytes));
    workspace_bytes = ways.front()->workspace_bytes();
  }
  if (plan == nullptr) return ways;
  for (const EpilogueTiling& tiling : plan->candidates()) {
    ways.push_back(std::make_unique<FusedProduct>(context, plan->launches(tiling, context.card().multiprocessors),
                                                  workspace_bytes));
  }
  return ways;
}

std::unique_ptr<Kernel> make_fused_product(CudaContext& context, const KernelSpec& spec, const EpiloguePlan* plan) {
  const CudaContext::Scope scope(context);
  std::vector<std::unique_ptr<Kernel>> ways = fused_product_ways(context, spec, plan);
  const std::size_t chosen = ways.size() == 1 ? 0 : choose(context, spec, *plan, ways);
  if (chosen > 0 && may_take_two_steps(plan))
    static_cast<FusedProduct&>(*ways[chosen]).set_otherwise(std::move(ways.front()));
  return std::move(ways[chosen]);
}

}  // namespace ridgepoint::cuda
