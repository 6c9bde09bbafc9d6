// The choice of algorithms and their timing, on the fake GPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/products/choice/search.h"
#include "backends/cuda/products/choice/tiles.h"
#include "backends/cuda/products/choice/timing.h"
#include "backends/cuda/products/product_problems.h"
#include "core/files/file.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::LtProblem;
using cuda::MatmulAddresses;
using cuda::MatmulTimer;

struct CudaMatmulChoice : testing::OnFakeCard {
  static std::string kernel_of(Device& device, const testing::BatchProduct& product) {
    const Graph graph;
    Node node;
    node.op = Op::matmul;
    return std::string(device.make_kernel({graph, node, product.inputs, product.outputs})->name());
  }
};

LtProblem product(std::int64_t m, std::int64_t n, std::int64_t k) {
  LtProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

TEST(MatmulTiles, are_expected_to_be_fast_where_they_fill_the_multiprocessors_once) {
  constexpr int kMultiprocessors = 132;
  const LtProblem problem = product(1280, 2048, 1280);
  const auto cycles = [&](int m, int n) { return cuda::expected_cycles(problem, {m, n}, 1, kMultiprocessors); };
  EXPECT_LT(cycles(128, 160), cycles(128, 128));  // 130 tiles, and 160
  EXPECT_LT(cycles(128, 160), cycles(256, 128));  // 80 larger ones
  EXPECT_LT(cycles(128, 128), cycles(64, 64));    // twice the loads
}

TEST(MatmulTiles, are_expected_to_gain_by_parts_where_they_are_few) {
  constexpr int kMultiprocessors = 132;
  const auto cycles = [&](const LtProblem& problem, int parts) {
    return cuda::expected_cycles(problem, {128, 128}, parts, kMultiprocessors);
  };
  EXPECT_LT(cycles(product(256, 256, 16384), 8), cycles(product(256, 256, 16384), 1));
  EXPECT_GT(cycles(product(2048, 2048, 512), 8), cycles(product(2048, 2048, 512), 1));
}

// The library needs twelve launches for each product; our own kernel needs one for the first, so it is chosen, and
// cannot compute the second. The first choice must not be used for the second product.
TEST_F(CudaMatmulChoice, is_not_shared_by_products_of_different_batch_dimensions) {
  on_fake_card([] {
    const std::shared_ptr<Device> device = make_cuda_device(0);
    EXPECT_THAT(kernel_of(*device, testing::product_of_three_batch_dimensions()), StartsWith("split_matmul"));
    EXPECT_EQ(kernel_of(*device, testing::product_of_four_batch_dimensions()), "matmul_fp32_cublaslt");
    EXPECT_THAT(kernel_of(*device, testing::product_of_three_batch_dimensions()), StartsWith("split_matmul"));
  });
}

TEST_F(CudaMatmulChoice, is_kept_with_all_that_it_depends_on) {
  on_fake_card([&] {
    kernel_of(*make_cuda_device(0), testing::product_of_three_batch_dimensions());
    const std::filesystem::directory_iterator entries(cache_home() / "ridgepoint/matmul");
    ASSERT_EQ(std::distance(begin(entries), end(entries)), 1);
    const std::string entry =
        read_file(*std::filesystem::directory_iterator(cache_home() / "ridgepoint/matmul"), 1 << 20);
    for (const char* part : {"operands cold", "cublasLt 130000", "split", "driver", "NVIDIA H200", "sm_90",
                             "132 multiprocessors", "fp32 m8 n4 k8"}) {
      EXPECT_THAT(entry, HasSubstr(part));
    }
  });
}

struct CudaMatmulTimer : testing::OnFakeCard {
  // Each has 16 KiB: two products' operands are more than twice the fake GPU's cache of 64 KiB, one product's are less.
  static MatmulTimer::Sizes sizes() {
    return {.dtype = DType::fp32, .a_bytes = 16384, .b_bytes = 16384, .c_bytes = 16000, .workspace_bytes = 100};
  }
  static cuda::MatmulBatch run_batch(MatmulTimer& timer, const cuda::MatmulLaunch& launch, int launches) {
    const cuda::MatmulLaunch* way = &launch;
    return timer.cold_batches(std::span(&way, 1), {launches}).front();
  }
};

TEST_F(CudaMatmulTimer, gives_each_launch_operands_of_its_own_until_the_cache_has_forgotten_them) {
  on_fake_card([] {
    MatmulTimer timer(CudaContext::of_card(0), sizes());
    ASSERT_TRUE(timer.has_memory());
    EXPECT_GE(timer.copies() * 3 * 16384, 2U * 65536);
    std::vector<const void*> met;
    std::set<const void*> workspaces;
    const auto launch = [&](const MatmulAddresses& at) {
      for (const void* address : {at.a, at.b, static_cast<const void*>(at.c)}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 256, 0U);
        met.push_back(address);
      }
      workspaces.insert(at.workspace);
      return true;
    };
    run_batch(timer, launch, static_cast<int>(timer.copies()));
    EXPECT_EQ(std::set(met.begin(), met.end()).size(), met.size());
    run_batch(timer, launch, 1);
    EXPECT_EQ(met[met.size() - 3], met[0]);
    EXPECT_EQ(workspaces.size(), 1U);
  });
}

std::vector<std::string> work;  // of the fake GPU

TEST_F(CudaMatmulTimer, overwrites_the_cache_before_a_batch_and_times_the_batch_alone) {
  on_fake_card([] {
    CudaContext& card = CudaContext::of_card(0);
    const cuda::Module module(card, "// text", "text");
    const cuda::CUfunction kernel = module.function("kernel");
    MatmulTimer timer(card, sizes());
    watch_card([](const FakeWork& done) { work.emplace_back(done.name); });
    const auto launch = [&](const MatmulAddresses&) { return card.launch(kernel, {}, nullptr, "kernel"), true; };
    const cuda::MatmulLaunch right = launch;
    const cuda::MatmulLaunch wrong = [](const MatmulAddresses&) { return false; };
    const std::array ways = {&right, &wrong, &right};
    const std::vector<cuda::MatmulBatch> batches = timer.cold_batches(ways, {3});
    watch_card(nullptr);
    EXPECT_TRUE(std::isfinite(batches[0].card_ms));
    EXPECT_TRUE(std::isinf(batches[1].card_ms));
    EXPECT_TRUE(std::isfinite(batches[2].card_ms));
    EXPECT_GT(batches[0].host_ms, 0);
    std::vector<std::string> order = work;  // fills and launches, without repetitions
    order.erase(std::unique(order.begin(), order.end()), order.end());
    EXPECT_EQ(order, (std::vector<std::string>{"fill", "kernel", "fill", "kernel"}));
    EXPECT_EQ(std::count(work.begin(), work.end(), "kernel"), 6);
  });
}

TEST_F(CudaMatmulTimer, says_where_a_card_has_no_room) {
  set("FAKE_CARD_HELD_BYTES", std::to_string((std::size_t{15} << 30) + (std::size_t{523} << 20)));
  on_fake_card([] {
    MatmulTimer::Sizes large = sizes();
    large.b_bytes = std::size_t{64} << 20;
    EXPECT_FALSE(MatmulTimer(CudaContext::of_card(0), large).has_memory());
    EXPECT_TRUE(MatmulTimer(CudaContext::of_card(0), sizes()).has_memory()) << "what did not fit was given back";
  });
}

}  // namespace
}  // namespace ridgepoint
