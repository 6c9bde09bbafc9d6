// Our own fp32 matmul for Hopper: its tilings, without a GPU; and on a GPU, every tiling against double.
#include "backends/cuda/products/split_matmul/split_matmul.h"
#include "backends/cuda/products/product_problems.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "backends/cpu/exact_product.h"
#include "backends/cuda/card.h"
#include "backends/cuda/card_harness.h"
#include "backends/cuda/libraries/nvrtc.h"

namespace ridgepoint {
namespace {

using cuda::SplitMatmul;
using cuda::SplitMatmulPlan;
using cuda::SplitTiling;
using testing::DeviceCopy;
using testing::LayoutChoice;
using testing::Operand;
using testing::problem_of;

constexpr int kMultiprocessors = 132;

std::optional<SplitMatmulPlan> plan_of(const Shape& a, const LayoutChoice& a_choice, const Shape& b,
                                       const LayoutChoice& b_choice, DType dtype = DType::fp32) {
  return SplitMatmulPlan::of(
      problem_of(testing::make_operand(dtype, a, a_choice).layout, testing::make_operand(dtype, b, b_choice).layout));
}

TEST(SplitMatmulPlan, deals_out_every_step_of_every_tile) {
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{4, 4, 4},
                                                                        {32, 768, 768},
                                                                        {1024, 1280, 5120},
                                                                        {8192, 8192, 8192},
                                                                        {1024, 64, 10000},
                                                                        {132 * 128, 4096, 128}}) {
    const std::optional<SplitMatmulPlan> plan = plan_of({m, k}, {}, {k, n}, {});
    ASSERT_TRUE(plan.has_value());
    const std::vector<SplitTiling> candidates = plan->candidates(kMultiprocessors);
    EXPECT_GE(candidates.size(), 4U);
    for (const SplitTiling& tiling : candidates) {
      const SplitMatmul parameters = plan->parameters(tiling);
      const std::int64_t tiles = std::int64_t{parameters.tiles_m} * parameters.tiles_n;
      EXPECT_GE(parameters.tiles_m * std::int64_t{tiling.rows}, m);
      EXPECT_GE(parameters.tiles_n * std::int64_t{tiling.columns}, n);
      EXPECT_EQ(tiles * parameters.steps,
                std::int64_t{parameters.whole_rounds} * tiling.blocks * parameters.steps + parameters.shared_steps)
          << tiling.to_text();
      EXPECT_GT(tiling.blocks, 0);
      EXPECT_LE(tiling.blocks, kMultiprocessors);
      EXPECT_TRUE(plan->supports(tiling, kMultiprocessors));
      const bool splits = parameters.shared_steps % (tiling.blocks * parameters.steps) != 0;
      const std::size_t partial =
          static_cast<std::size_t>(tiling.blocks) * tiling.rows * tiling.columns * sizeof(float);
      if (splits && parameters.steps > 1) {
        EXPECT_LE(partial, plan->workspace_bytes()) << tiling.to_text();
      }
    }
  }
}

TEST(SplitMatmulPlan, takes_any_batch_of_a_projection_in_one_launch) {
  // Products of attention on heads of [B,S,H,D]: scores, and their product with the values.
  const LayoutChoice heads{.storage_order = {0, 2, 1, 3}};
  EXPECT_TRUE(plan_of({4, 12, 256, 64}, heads, {4, 12, 64, 256}, {.storage_order = {0, 3, 1, 2}}).has_value());
  EXPECT_TRUE(plan_of({4, 12, 256, 256}, {}, {4, 12, 256, 64}, heads).has_value());
  EXPECT_EQ(
      plan_of({4, 12, 256, 64}, heads, {4, 12, 64, 256}, {.storage_order = {0, 3, 1, 2}})->function_name({64, 128, 9}),
      "split_matmul_64x128_nt");
}

TEST(SplitMatmulPlan, leaves_to_the_library_what_vectors_do_not_fit) {
  EXPECT_FALSE(plan_of({6, 7}, {}, {7, 8}, {}).has_value());
  EXPECT_FALSE(plan_of({8, 8}, {}, {8, 6}, {}).has_value());
  EXPECT_TRUE(plan_of({8, 8}, {}, {8, 6}, {.storage_order = {1, 0}}).has_value());
  EXPECT_FALSE(plan_of({8, 8}, {}, {8, 5}, {.storage_order = {1, 0}}).has_value());
  EXPECT_FALSE(plan_of({8, 8}, {.padding = 2}, {8, 8}, {}).has_value());
  EXPECT_FALSE(plan_of({8, 8}, {}, {8, 8}, {}, DType::bf16).has_value());
  EXPECT_FALSE(plan_of({8, 0}, {}, {0, 8}, {}).has_value());
}

TEST(SplitTiling, reads_back_what_it_wrote_and_nothing_else) {
  const SplitTiling tiling{128, 64, 132};
  EXPECT_EQ(SplitTiling::from_text(tiling.to_text()), tiling);
  for (const char* wrong : {"", "128", "128x64", "128x64 in", "128x64 in 132 ", "x64 in 132", "128x64 on 132"}) {
    EXPECT_FALSE(SplitTiling::from_text(wrong).has_value()) << wrong;
  }
}

// Occupies all but a few multiprocessors for a while, on a stream of its own.
class Occupied {
 public:
  Occupied(cuda::CudaContext& context, int multiprocessors)
      : context_(context), scope_(context), module_(context, image(context).bytes.data(), "spin") {
    const cuda::Driver& driver = context.driver();
    constexpr unsigned kSharedBytes = 200 << 10;  // so that no other block fits on the multiprocessor
    const cuda::CUfunction spin = module_.function("spin");
    context.allow_shared(spin, kSharedBytes);
    cuda::check(driver.cuStreamCreate(&stream_, cuda::CU_STREAM_NON_BLOCKING), "create a stream");
    std::uint64_t nanoseconds = 30'000'000;
    void* arguments[] = {&nanoseconds};
    cuda::check(driver.cuLaunchKernel(spin, static_cast<unsigned>(multiprocessors), 1, 1, 32, 1, 1, kSharedBytes,
                                      stream_, arguments, nullptr),
                "launch", "spin");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // wait until it has started
  }
  ~Occupied() {
    while (context_.driver().cuStreamQuery(stream_) == cuda::CUDA_ERROR_NOT_READY) {
    }
  }

 private:
  static const cuda::CompiledImage& image(const cuda::CudaContext& context) {
    static const cuda::CompiledImage compiled = cuda::nvrtc().compile(
        R"(extern "C" __global__ void spin(unsigned long long nanoseconds) {
             unsigned long long begin, now;
             asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
             do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < nanoseconds);
           })",
        "spin", context.card().capability.number());
    return compiled;
  }

  cuda::CudaContext& context_;
  cuda::CudaContext::Scope scope_;
  cuda::Module module_;
  cuda::CUstream stream_ = nullptr;
};

// Computes a product with each of its candidate tilings.
class OnCardSplitMatmul : public testing::OnHopper {
 protected:
  Operand random(const Shape& shape, const LayoutChoice& choice = {}) {
    return testing::random_operand(DType::fp32, shape, random_, choice);
  }

  std::vector<float> multiply(const Operand& a, const Operand& b, const SplitMatmulPlan& plan,
                              const SplitTiling& tiling, std::int64_t elements) {
    const DeviceCopy a_copy(*device_, a.storage);
    const DeviceCopy b_copy(*device_, b.storage);
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
    const DeviceCopy c(*device_, std::vector(bytes + kGuardBytes, kGuard));
    const DeviceCopy workspace(*device_, std::vector(plan.workspace_bytes() + kGuardBytes, kGuard));
    cuda::SplitMatmulLaunch launch(*context_, plan, tiling);
    launch.launch({a_copy.address(), b_copy.address(), nullptr, c.address(), workspace.address()});
    device_->synchronize();
    const std::vector<std::byte> result = c.read();
    for (const std::vector<std::byte>& memory : {result, workspace.read()}) {
      EXPECT_TRUE(std::all_of(memory.end() - kGuardBytes, memory.end(), [](std::byte x) { return x == kGuard; }))
          << tiling.to_text() << " wrote past its end";
    }
    std::vector<float> values(static_cast<std::size_t>(elements));
    std::memcpy(values.data(), result.data(), bytes);
    return values;
  }

  // Few tiles and a long inner dimension, whose steps several blocks share. The buffers besides the result are on the
  // GPU.
  struct LongProduct {
    static constexpr std::int64_t kElements = std::int64_t{192} * 192;
    static constexpr std::size_t kBytes = kElements * sizeof(float);

    explicit LongProduct(OnCardSplitMatmul& test)
        : a(test.random({192, 2048})),
          b(test.random({2048, 192})),
          plan(*SplitMatmulPlan::of(problem_of(a.layout, b.layout))),
          tilings(plan.candidates(test.context_->card().multiprocessors)),
          a_copy(*test.device_, a.storage),
          b_copy(*test.device_, b.storage),
          workspace(*test.device_, std::vector(plan.workspace_bytes(), kGuard)) {}

    void launch(cuda::SplitMatmulLaunch& launch, const DeviceCopy& c) const {
      launch.launch({a_copy.address(), b_copy.address(), nullptr, c.address(), workspace.address()});
    }

    Operand a, b;
    SplitMatmulPlan plan;
    std::vector<SplitTiling> tilings;
    DeviceCopy a_copy, b_copy, workspace;
  };
  std::vector<float> multiply(const LongProduct& product, const SplitTiling& tiling) {
    return multiply(product.a, product.b, product.plan, tiling, LongProduct::kElements);
  }

  struct Exact {
    Shape shape;
    std::vector<double> values;
    std::vector<double> magnitudes;  // sum of the terms' absolute values
  };
  static Exact exact_product(const Operand& a, const Operand& b) {
    Graph graph;
    Exact exact;
    exact.shape =
        graph.type(matmul(graph, input(graph, "a", a.type(), Role::data), input(graph, "b", b.type(), Role::data)))
            .shape;
    for (std::int64_t i = 0; i < exact.shape.elements(); ++i) {
      const testing::ExactProduct product = testing::product_at(a, b, testing::unravel(exact.shape, i));
      exact.values.push_back(product.value);
      exact.magnitudes.push_back(product.magnitude);
    }
    return exact;
  }

  // The relative L2 error must be below that of rounded fp32 sums, and each element within its own bound.
  void expect_every_tiling_exact(const Operand& a, const Operand& b) {
    const std::optional<SplitMatmulPlan> plan = SplitMatmulPlan::of(problem_of(a.layout, b.layout));
    ASSERT_TRUE(plan.has_value());
    const Exact exact = exact_product(a, b);
    for (const SplitTiling& tiling : plan->candidates(context_->card().multiprocessors)) {
      const std::vector<float> values = multiply(a, b, *plan, tiling, exact.shape.elements());
      double error = 0;
      double norm = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double difference = values[i] - exact.values[i];
        ASSERT_LE(std::fabs(difference), 8 * 0x1p-24 * exact.magnitudes[i])
            << plan->function_name(tiling) << ' ' << tiling.to_text() << ", element " << i << " of "
            << a.type().to_string() << " x " << b.type().to_string();
        error += difference * difference;
        norm += exact.values[i] * exact.values[i];
      }
      EXPECT_LT(std::sqrt(error / norm), 5e-7) << plan->function_name(tiling) << ' ' << tiling.to_text();
      worst_ = std::max(worst_, std::sqrt(error / norm));
    }
  }

  static constexpr std::byte kGuard{0x7f};
  static constexpr std::size_t kGuardBytes = 64;

  std::mt19937 random_{11};
  double worst_ = 0;
};

TEST_F(OnCardSplitMatmul, agrees_with_double_in_every_layout_and_tiling) {
  const LayoutChoice rows{};
  const LayoutChoice columns{.storage_order = {1, 0}};
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{4, 4, 4},
                                                                        {64, 64, 64},
                                                                        {128, 128, 128},
                                                                        {132, 196, 260},
                                                                        {32, 768, 256},
                                                                        {300, 1260, 292},
                                                                        {1024, 68, 132}}) {
    for (const LayoutChoice& a : {rows, columns}) {
      for (const LayoutChoice& b : {rows, columns}) {
        expect_every_tiling_exact(random({m, k}, a), random({k, n}, b));
        if (HasFatalFailure()) return;
      }
    }
  }
  RecordProperty("worst_relative_error", std::to_string(worst_));
}

TEST_F(OnCardSplitMatmul, agrees_with_double_on_batches_and_padded_rows) {
  const LayoutChoice heads{.storage_order = {0, 2, 1, 3}};
  expect_every_tiling_exact(random({2, 3, 68, 64}, heads), random({2, 3, 64, 68}, {.storage_order = {0, 3, 1, 2}}));
  expect_every_tiling_exact(random({2, 3, 68, 68}), random({2, 3, 68, 32}, heads));
  expect_every_tiling_exact(random({5, 36, 72}), random({5, 72, 40}, {.broadcast = {0}}));
  expect_every_tiling_exact(random({100, 200}, {.padding = 4}), random({200, 60}, {.padding = 8}));
}

TEST_F(OnCardSplitMatmul, is_no_less_exact_on_long_sums) {
  expect_every_tiling_exact(random({128, 8192}), random({8192, 64}));
  expect_every_tiling_exact(random({64, 20000}, {.storage_order = {1, 0}}), random({20000, 64}));
}

TEST_F(OnCardSplitMatmul, deals_out_more_tiles_than_blocks) {
  expect_every_tiling_exact(random({1664, 192}), random({192, 1664}, {.storage_order = {1, 0}}));
}

TEST_F(OnCardSplitMatmul, repeats_bit_for_bit) {
  const LongProduct product(*this);
  for (const SplitTiling& tiling : product.tilings) {
    const std::vector<float> first = multiply(product, tiling);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(multiply(product, tiling), first) << tiling.to_text();
  }
}

// Each launch begins with flags of 0, after any other launch.
TEST_F(OnCardSplitMatmul, launches_of_any_size_may_follow_one_another_at_once) {
  const LongProduct product(*this);
  std::vector<std::unique_ptr<cuda::SplitMatmulLaunch>> launches;
  std::vector<std::unique_ptr<DeviceCopy>> results;
  for (const SplitTiling& tiling : product.tilings) {
    launches.push_back(std::make_unique<cuda::SplitMatmulLaunch>(*context_, product.plan, tiling));
    results.push_back(std::make_unique<DeviceCopy>(*device_, std::vector(LongProduct::kBytes, kGuard)));
  }
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) product.launch(*launches[i], *results[i]);
  }
  device_->synchronize();
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const std::vector<float> alone = multiply(product, product.tilings[i]);
    EXPECT_EQ(std::memcmp(results[i]->read().data(), alone.data(), LongProduct::kBytes), 0)
        << product.tilings[i].to_text();
  }
}

// Blocks wait for one another, so they start only when there is space for all of them.
TEST_F(OnCardSplitMatmul, is_whole_where_the_card_has_no_room_for_all_blocks) {
  const LongProduct product(*this);
  for (const SplitTiling& tiling : product.tilings) {
    const std::vector<float> alone = multiply(product, tiling);
    const DeviceCopy c(*device_, std::vector(LongProduct::kBytes, kGuard));
    cuda::SplitMatmulLaunch launch(*context_, product.plan, tiling);
    const Occupied occupied(*context_, context_->card().multiprocessors - 5);
    product.launch(launch, c);
    EXPECT_EQ(std::memcmp(c.read().data(), alone.data(), LongProduct::kBytes), 0) << tiling.to_text();
  }
}

TEST_F(OnCardSplitMatmul, carries_what_is_not_finite_and_what_is_nearly_so) {
  Operand a = random({64, 192});
  Operand b = random({192, 64});
  const auto set = [](Operand& operand, std::size_t element, double value) {
    store_element(DType::fp32, operand.storage.data() + element * sizeof(float), value);
  };
  for (std::size_t k = 0; k < 192; ++k)
    set(b, k * 64, 1.0);  // column 0 needs one bf16 number; infinity times the others is NaN
  set(a, 2 * 192 + 100, INFINITY);
  set(a, 3 * 192 + 7, NAN);
  for (std::size_t k = 0; k < 192; ++k) set(a, 4 * 192 + k, k == 0 ? 3.4e38 : 0.0);  // above the largest bf16
  for (std::size_t k = 0; k < 192; ++k) set(a, 5 * 192 + k, k == 0 ? 0x1p-140 : 0.0);
  const SplitMatmulPlan plan = *SplitMatmulPlan::of(problem_of(a.layout, b.layout));
  for (const SplitTiling& tiling : plan.candidates(context_->card().multiprocessors)) {
    const std::vector<float> c = multiply(a, b, plan, tiling, 64 * 64);
    EXPECT_TRUE(std::isfinite(c[0])) << tiling.to_text();
    EXPECT_EQ(c[2 * 64], INFINITY) << tiling.to_text();
    EXPECT_TRUE(std::isnan(c[3 * 64])) << tiling.to_text();
    EXPECT_EQ(c[4 * 64], 3.4e38F) << tiling.to_text();
    EXPECT_NEAR(c[5 * 64], 0x1p-140, 0x1p-133) << tiling.to_text();
  }
}

}  // namespace
}  // namespace ridgepoint
