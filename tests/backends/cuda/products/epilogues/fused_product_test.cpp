// What holds for all epilogues of products: the cards that have them, the addresses that their kernels take, and what
// runs where a kernel cannot.
#include "backends/cuda/products/epilogues/fused_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product_runs.h"
#include "backends/cuda/products/epilogues/loss_case.h"
#include "backends/cuda/products/epilogues/residual_case.h"
#include "backends/cuda/products/epilogues/rope_case.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::FusedProductRun;
using ::testing::Ge;
using testing::LossCase;
using testing::Operand;
using testing::ResidualCase;
using testing::RopeCase;

// Calls work(what, case) for a case of each epilogue.
template <class Work>
void for_each_epilogue(const Work& work) {
  work("norm", ResidualCase(false, 1000, 768, 1600));
  work("derivative of a norm", ResidualCase(true, 1000, 768, 1600));
  work("rotary embedding", RopeCase(4, 250, 30, 64, 640, 768));
  work("cross-entropy", LossCase(true, 1000, 768, 10000));
}

TEST(FusedProduct, is_for_compute_capability_9_0_alone) {
  for_each_epilogue([](const char* what, const testing::FusedProductCase& some) {
    cuda::CardFacts card = testing::hopper_card();
    EXPECT_NE(cuda::find_variant(card, some.graph, some.graph.node(some.node)), nullptr) << what;
    for (const cuda::ComputeCapability other : {cuda::ComputeCapability{8, 0}, {8, 9}, {10, 0}, {10, 3}, {12, 0}}) {
      card.capability = other;
      EXPECT_EQ(cuda::find_variant(card, some.graph, some.graph.node(some.node)), nullptr)
          << what << " for " << other.number();
    }
  });
}

// From a slice of a GPU to one that is larger than any with this compute capability.
TEST(FusedProduct, has_a_block_on_each_of_any_number_of_multiprocessors) {
  for_each_epilogue([](const char* what, const auto& some) {
    const auto plan = some.plan();
    ASSERT_TRUE(plan.has_value()) << what;
    for (const int multiprocessors : {1, 2, 7, 16, 78, 114, 132, 144}) {
      for (const cuda::EpilogueTiling& tiling : plan->candidates()) {
        const cuda::EpilogueLaunch main = plan->launches(tiling, multiprocessors)[0];
        const int blocks = static_cast<int>(main.shape.grid_x);
        EXPECT_EQ(blocks % tiling.cluster_blocks(), 0) << what << ", " << tiling.to_text();
        EXPECT_LE(blocks, std::clamp(multiprocessors, tiling.cluster_blocks(), 132))
            << what << ", " << tiling.to_text();
        cuda::LowMatmul product;  // the first of the parameters
        std::memcpy(&product, main.parameters.bytes.data(), sizeof product);
        EXPECT_GE(product.whole_rounds * (blocks / tiling.cluster_blocks()), product.tiles) << what;
      }
    }
  });
}

TEST(FusedProduct, is_not_of_sizes_beyond_32_bits) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 31;
  EXPECT_FALSE(ResidualCase(false, 64, kHuge, 64).plan().has_value());
  EXPECT_FALSE(RopeCase(1, 64, 2, 64, kHuge, 64).plan().has_value()) << "columns";
  EXPECT_FALSE(RopeCase(1, 64, 2, 64, 64, kHuge).plan().has_value()) << "the length of the sums";
  EXPECT_FALSE(RopeCase(1, std::int64_t{1} << 27, 2, 64, 64, 64).plan().has_value()) << "tables";
  EXPECT_FALSE(LossCase(true, kHuge, 64, 64).plan().has_value());
}

// Addresses at multiples of 256 bytes, of which one may be moved.
struct Addresses {
  Addresses(std::size_t inputs_count, std::size_t outputs_count) {
    const auto make = [&](std::size_t count, std::vector<void*>& to) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(reinterpret_cast<void*>(next_ += std::uintptr_t{1} << 24));
    };
    make(inputs_count, inputs);
    make(outputs_count, outputs);
  }
  explicit Addresses(const testing::FusedProductCase& some) : Addresses(some.layouts.size(), some.results.size()) {}

  static void move(void*& address, std::size_t bytes) { address = static_cast<std::byte*>(address) + bytes; }
  LaunchArguments arguments() const {
    return {inputs.data(), outputs.data(), reinterpret_cast<void*>(std::uintptr_t{1} << 40)};
  }

  std::vector<void*> inputs, outputs;

 private:
  std::uintptr_t next_ = 0;
};

// Whether the main kernel takes the addresses where input or result `index` begins so many bytes later.
template <class Case>
bool takes(const Case& some, std::vector<void*> Addresses::*which, std::size_t index, std::size_t bytes) {
  const auto plan = some.plan();
  Addresses addresses(some);
  Addresses::move((addresses.*which)[index], bytes);
  return cuda::are_aligned(plan->launches(plan->candidates()[0], 132)[0], addresses.arguments());
}

TEST(FusedProduct, takes_what_is_read_in_vectors_at_multiples_of_16_bytes_only) {
  constexpr auto kInputs = &Addresses::inputs;
  constexpr auto kResults = &Addresses::outputs;
  for (const bool backward : {false, true}) {
    const ResidualCase some(backward, 256, 512, 64);
    for (const std::size_t input : {0, 1, 2, 3}) {
      EXPECT_TRUE(takes(some, kInputs, input, 16)) << input;
      EXPECT_FALSE(takes(some, kInputs, input, 4)) << "operand " << input << (backward ? ", backward" : "");
    }
    for (const std::size_t result : backward ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{0, 2}) {
      EXPECT_TRUE(takes(some, kResults, result, 32)) << result;
      EXPECT_FALSE(takes(some, kResults, result, 8)) << "result " << result << (backward ? ", backward" : "");
    }
  }
  const ResidualCase backward(true, 256, 512, 64);
  EXPECT_TRUE(takes(backward, kInputs, 4, 4)) << "one number for a row";
  EXPECT_FALSE(takes(backward, kInputs, 5, 4));
  EXPECT_TRUE(takes(ResidualCase(false, 256, 512, 64), kResults, 1, 4)) << "one number for a row";
  for (const std::size_t table : {2, 3}) EXPECT_FALSE(takes(RopeCase(2, 128, 4, 64, 128, 512), kInputs, table, 8));
  const LossCase loss(true, 256, 512, 4096);
  EXPECT_TRUE(takes(loss, kInputs, 2, 8)) << "targets are read one by one";
  EXPECT_FALSE(takes(loss, kResults, 0, 8));
}

std::vector<std::string> launched;  // by the fake GPU

struct FusedProductOnFakeCard : testing::OnFakeCard {
  // The kernels that a launch runs.
  static std::vector<std::string> kernels_of(Kernel& kernel, const Addresses& addresses) {
    launched.clear();
    watch_card([](const FakeWork& work) { launched.emplace_back(work.name); });
    kernel.launch(addresses.arguments());
    watch_card(nullptr);
    return launched;
  }

  // A launch with operand `index` in its place, and one where it begins `bytes` later.
  static void expect_two_steps(const testing::FusedProductCase& some, const std::string& name, std::size_t index,
                               std::size_t bytes) {
    const auto kernel = make_hand_written_kernel(cuda::CudaContext::of_card(0), some.spec());
    ASSERT_THAT(std::string(kernel->name()), StartsWith(name));
    Addresses addresses(some);
    EXPECT_THAT(kernels_of(*kernel, addresses), Each(StartsWith(name)));
    Addresses::move(addresses.inputs[index], bytes);
    EXPECT_THAT(kernels_of(*kernel, addresses), AllOf(SizeIs(Ge(2)), Each(Not(StartsWith(name)))));
    Addresses::move(addresses.inputs[index], 16 - bytes);
    EXPECT_THAT(kernels_of(*kernel, addresses), Each(StartsWith(name)));
  }
};

TEST_F(FusedProductOnFakeCard, runs_in_two_steps_where_an_operand_is_not_aligned) {
  use_fake_compiler();
  on_fake_card([] {
    expect_two_steps(ResidualCase(false, 256, 512, 64), "fused_residual_norm", 3, 4);
    expect_two_steps(ResidualCase(true, 256, 512, 64), "fused_residual_backward", 3, 4);
    expect_two_steps(RopeCase(2, 128, 4, 64, 128, 512), "fused_rope_forward", 2, 8);
  });
}

TEST_F(FusedProductOnFakeCard, refuses_operands_that_are_not_aligned_where_two_steps_need_more_memory_than_is_planned) {
  use_fake_compiler();
  set("FAKE_NVRTC_REFUSES", "fused_");
  on_fake_card([] {
    const ResidualCase some(true, 256, 128, 64);  // k is too short for a workspace of the product
    const auto kernel = make_hand_written_kernel(cuda::CudaContext::of_card(0), some.spec());
    ASSERT_THAT(std::string(kernel->name()), StartsWith("fused_residual_backward"));
    Addresses addresses(some);
    Addresses::move(addresses.inputs[3], 4);
    EXPECT_THROW(kernel->launch(addresses.arguments()), Error);
  });
}

// Such as a GPU of which another process holds a part.
TEST_F(FusedProductOnFakeCard, is_in_two_steps_where_the_card_has_no_room_for_all_blocks_at_once) {
  use_fake_compiler();
  set("FAKE_CARD_REFUSES_TOGETHER", "1");
  on_fake_card([] {
    for (const bool backward : {false, true}) {
      const ResidualCase some(backward, 256, 512, 64);
      const auto kernel = make_hand_written_kernel(cuda::CudaContext::of_card(0), some.spec());
      EXPECT_THAT(std::string(kernel->name()), HasSubstr("matmul"));
      EXPECT_THAT(kernels_of(*kernel, Addresses(some)), AllOf(SizeIs(Ge(2)), Each(Not(StartsWith("fused_residual")))));
    }
  });
}

class OnCardFusedProduct : public testing::OnHopper {
 protected:
  std::vector<Operand> operands_of(const testing::FusedProductCase& some) {
    std::vector<Operand> operands;
    for (const TensorLayout& layout : some.layouts) {
      const bool is_by_columns = layout.shape.rank() == 2 && layout.strides[0] == 1 && layout.strides[1] > 1;
      operands.push_back(
          testing::random_operand(layout.dtype, layout.shape, random_,
                                  {.storage_order = is_by_columns ? std::vector<int>{1, 0} : std::vector<int>{}}));
    }
    return operands;
  }

  std::mt19937 random_{19};
};

// The weights of a norm and the cosines of a table, one element after a multiple of 16 bytes.
TEST_F(OnCardFusedProduct, takes_operands_that_begin_anywhere) {
  const auto expect_same = [&](const auto& some, std::size_t shifted) {
    const std::vector<Operand> operands = operands_of(some);
    const auto plan = some.plan();
    const std::vector<std::vector<double>> expected =
        testing::results_of_ways(*device_, *context_, some.spec(), *plan, operands)[0];
    const auto kernel = make_hand_written_kernel(*context_, some.spec());
    kernel->prepare();
    FusedProductRun run(*device_, some.spec(), operands, kernel->workspace_bytes(), shifted);
    run.launch(*kernel);
    device_->synchronize();
    const std::vector<std::vector<double>> found = run.results();
    for (std::size_t result = 0; result < expected.size(); ++result) {
      for (std::size_t i = 0; i < expected[result].size(); ++i) {
        ASSERT_NEAR(found[result][i], expected[result][i], 0.02 * (1 + std::fabs(expected[result][i])))
            << kernel->name() << ", result " << result << ", element " << i;
      }
    }
  };
  expect_same(ResidualCase(false, 1000, 768, 768), 3);
  expect_same(ResidualCase(true, 1000, 768, 768), 3);
  expect_same(RopeCase(2, 500, 12, 64, 768, 768), 2);
}

// Cooperative launches of several kinds share the words in which blocks count, which each leaves at 0.
TEST_F(OnCardFusedProduct, gives_in_a_captured_run_what_it_gives_in_single_launches) {
  const ResidualCase forward(false, 1000, 768, 768), backward(true, 1000, 768, 768);
  struct Launches {
    std::vector<std::unique_ptr<Kernel>> ways;
    std::vector<std::unique_ptr<FusedProductRun>> runs;
  };
  std::vector<Launches> all;
  for (const ResidualCase* some : {&forward, &backward}) {
    const std::vector<Operand> operands = operands_of(*some);
    const auto plan = some->plan();
    Launches& made = all.emplace_back();
    made.ways = cuda::fused_product_ways(*context_, some->spec(), &*plan);
    for (const auto& way : made.ways) {
      way->prepare();
      made.runs.push_back(std::make_unique<FusedProductRun>(*device_, some->spec(), operands, way->workspace_bytes()));
    }
  }
  const auto launch_all = [&] {
    for (Launches& launches : all) {
      for (std::size_t i = 0; i < launches.ways.size(); ++i) launches.runs[i]->launch(*launches.ways[i]);
    }
  };
  const auto results = [&] {
    device_->synchronize();
    std::vector<std::vector<std::vector<double>>> found;
    for (const Launches& launches : all) {
      for (const auto& run : launches.runs) found.push_back(run->results());
    }
    return found;
  };
  launch_all();
  const auto expected = results();
  const std::unique_ptr<CapturedLaunches> captured = device_->capture(launch_all);
  ASSERT_NE(captured, nullptr);
  for (int i = 0; i < 20; ++i) captured->run();
  EXPECT_TRUE(results() == expected) << "captured";
  launch_all();
  EXPECT_TRUE(results() == expected) << "after it";
}

}  // namespace
}  // namespace ridgepoint
