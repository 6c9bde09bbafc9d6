// Our own bf16 and fp16 matmul for Hopper: its tilings, without a GPU; and on a GPU, every tiling against double.
#include "backends/cuda/products/low_matmul/low_matmul.h"
#include "backends/cuda/products/choice/search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "backends/cuda/card.h"
#include "backends/cuda/card_harness.h"
#include "backends/cuda/products/operands/mapping.h"
#include "core/rounding.h"

namespace ridgepoint {
namespace {

using cuda::LowMatmul;
using cuda::LowMatmulPlan;
using cuda::LowTiling;
using testing::DeviceCopy;
using testing::LayoutChoice;
using testing::Operand;

constexpr int kHopperMultiprocessors = 132;

// With `pads`, the rows of the result begin at multiples of 16 bytes.
MatmulProblem low_problem(const TensorLayout& a, const TensorLayout& b, DType result, bool adds = false,
                          bool pads = false) {
  Graph graph;
  const Value product = matmul(graph, input(graph, "a", {a.dtype, a.shape}, Role::data),
                               input(graph, "b", {b.dtype, b.shape}, Role::data));
  const std::array inputs = {a, b};
  std::array outputs = {dense_layout(graph.type(product))};
  outputs[0].dtype = result;
  const std::int64_t row = round_up(outputs[0].shape[-1], 8);
  if (pads && row > outputs[0].shape[-1]) outputs[0] = layout_with_rows({result, outputs[0].shape}, row);
  MatmulProblem problem = read_matmul_problem({graph, graph.producer_node(product), inputs, outputs});
  problem.adds = adds;
  return problem;
}

std::optional<LowMatmulPlan> low_plan(const Shape& a, const LayoutChoice& a_choice, const Shape& b,
                                      const LayoutChoice& b_choice, DType dtype = DType::bf16) {
  return LowMatmulPlan::of(low_problem(testing::make_operand(dtype, a, a_choice).layout,
                                       testing::make_operand(dtype, b, b_choice).layout, dtype));
}

const LayoutChoice kByRows{};
const LayoutChoice kByColumns{.storage_order = {1, 0}};

TEST(LowMatmulPlan, deals_out_every_step_of_every_tile) {
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{8, 8, 8},
                                                                        {32, 768, 768},
                                                                        {1024, 1280, 5120},
                                                                        {8192, 8192, 8192},
                                                                        {1024, 64, 10000},
                                                                        {132 * 128, 4096, 128}}) {
    const std::optional<LowMatmulPlan> plan = low_plan({m, k}, kByRows, {k, n}, kByColumns);
    ASSERT_TRUE(plan.has_value());
    const std::size_t workspace = std::size_t{32} << 20;
    const std::vector<LowTiling> candidates = plan->candidates(kHopperMultiprocessors, workspace);
    EXPECT_FALSE(candidates.empty());
    for (const LowTiling& tiling : candidates) {
      const LowMatmul parameters = plan->parameters(tiling);
      const int clusters = tiling.blocks / tiling.cluster_blocks();
      EXPECT_EQ(clusters * tiling.cluster_blocks(), tiling.blocks);
      EXPECT_GT(tiling.blocks, 0);
      EXPECT_LE(tiling.blocks, kHopperMultiprocessors);
      EXPECT_GE(std::int64_t{parameters.tiles_m} * tiling.rows * tiling.cluster_rows, m);
      EXPECT_GE(std::int64_t{parameters.tiles_n} * tiling.columns * tiling.cluster_columns, n);
      EXPECT_EQ(parameters.tiles, parameters.tiles_m * parameters.tiles_n);
      const std::int64_t in_rounds = std::int64_t{parameters.whole_rounds} * clusters;
      if (tiling.shares) {
        EXPECT_EQ((parameters.tiles - in_rounds) * parameters.steps, parameters.shared_steps) << tiling.to_text();
        EXPECT_GE(parameters.shared_steps, clusters) << tiling.to_text();
      } else {
        EXPECT_GE(in_rounds, parameters.tiles) << tiling.to_text();
        EXPECT_LT(in_rounds - clusters, parameters.tiles) << tiling.to_text();
        EXPECT_EQ(parameters.shared_steps, 0) << tiling.to_text();
      }
      EXPECT_TRUE(plan->supports(tiling, kHopperMultiprocessors, workspace));
      EXPECT_LE(plan->shared_bytes(tiling), 227 * 1024) << tiling.to_text();
    }
  }
}

TEST(LowMatmulPlan, shares_steps_only_where_the_partial_sums_fit_in_the_workspace) {
  const LowMatmulPlan plan = *low_plan({256, 4096}, kByRows, {4096, 256}, kByColumns);
  const auto shares = [](const LowTiling& tiling) { return tiling.shares; };
  const std::vector<LowTiling> with_room = plan.candidates(kHopperMultiprocessors, std::size_t{32} << 20);
  EXPECT_TRUE(std::any_of(with_room.begin(), with_room.end(), shares));
  const std::vector<LowTiling> without = plan.candidates(kHopperMultiprocessors, 1000);
  EXPECT_FALSE(without.empty());
  EXPECT_FALSE(std::any_of(without.begin(), without.end(), shares));
}

TEST(LowMatmulPlan, leaves_to_the_library_what_the_copy_engine_does_not_take) {
  EXPECT_TRUE(low_plan({8, 8}, kByRows, {8, 8}, kByRows).has_value());
  EXPECT_FALSE(low_plan({16, 7}, kByRows, {7, 8}, kByRows).has_value());
  EXPECT_FALSE(low_plan({8, 8}, {.padding = 4}, {8, 8}, kByRows).has_value());
  EXPECT_FALSE(low_plan({8, 8}, kByRows, {8, 12}, kByColumns).has_value()) << "rows of the result are 24 bytes";
  EXPECT_FALSE(low_plan({8, 8}, kByColumns, {8, 8}, kByColumns).has_value()) << "both operands transposed";
  EXPECT_FALSE(low_plan({8, 8}, kByRows, {8, 8}, kByRows, DType::fp32).has_value());
  EXPECT_FALSE(low_plan({8, 0}, kByRows, {0, 8}, kByRows).has_value());
  EXPECT_FALSE(low_plan({2, 3, 8, 8}, {.storage_order = {1, 0, 2, 3}}, {2, 3, 8, 8}, {}).has_value())
      << "two batch dimensions";
}

TEST(LowMatmulPlan, writes_rows_of_any_length_that_are_padded) {
  const auto plan = [](std::int64_t n, bool adds, bool pads) {
    const TensorLayout a = dense_layout({DType::bf16, {16, 64}}),
                       b = testing::make_operand(DType::bf16, {64, n}, kByColumns).layout;
    return LowMatmulPlan::of(low_problem(a, b, DType::bf16, adds, pads));
  };
  EXPECT_FALSE(plan(1027, false, false).has_value());
  EXPECT_TRUE(plan(1027, false, true).has_value());
  EXPECT_FALSE(plan(1027, true, true).has_value()) << "an addend is read in pairs";
  EXPECT_TRUE(plan(1026, true, true).has_value());
  EXPECT_TRUE(low_plan({16, 331}, {.padding = 5}, {331, 64}, kByRows).has_value());
  EXPECT_TRUE(low_plan({331, 16}, {.storage_order = {1, 0}, .padding = 5}, {16, 64}, kByRows).has_value());
}

TEST(LowMatmulPlan, takes_a_batch_in_one_launch) {
  const std::optional<LowMatmulPlan> plan = low_plan({6, 64, 128}, {}, {6, 128, 64}, {});
  ASSERT_TRUE(plan.has_value());
  for (const LowTiling& tiling : plan->candidates(kHopperMultiprocessors, 0)) {
    EXPECT_EQ(plan->parameters(tiling).tiles % 6, 0) << tiling.to_text();
  }
}

TEST(LowMatmulPlan, names_a_kernel_by_types_tiling_and_layouts) {
  const LowTiling tiling = *LowTiling::from_text("128x256_2x1 in 132");
  EXPECT_EQ(low_plan({64, 64}, kByRows, {64, 64}, kByColumns)->function_name(tiling), "low_matmul_bf16_128x256_2x1_nt");
  EXPECT_EQ(low_plan({64, 64}, kByRows, {64, 64}, kByRows, DType::fp16)->function_name(tiling),
            "low_matmul_fp16_128x256_2x1_nn");
  const TensorLayout square = dense_layout({DType::bf16, {64, 64}});
  EXPECT_EQ(LowMatmulPlan::of(low_problem(square, square, DType::fp32))->function_name(tiling),
            "low_matmul_bf16_fp32_128x256_2x1_nn");
}

TEST(LowTiling, reads_back_what_it_wrote_and_nothing_else) {
  const LowMatmulPlan plan = *low_plan({1024, 4096}, kByRows, {4096, 768}, kByColumns);
  for (const LowTiling& tiling : plan.candidates(kHopperMultiprocessors, std::size_t{32} << 20)) {
    EXPECT_EQ(LowTiling::from_text(tiling.to_text()), tiling) << tiling.to_text();
  }
  for (const char* wrong : {"", "128x256", "128x256_2x1", "128x256_2x1 in", "128x256_2x1 in 132 ", "100x256_2x1 in 132",
                            "128x256_2x1 in 132 share", "128x256_2x1 in many"}) {
    EXPECT_FALSE(LowTiling::from_text(wrong).has_value()) << wrong;
  }
}

// Computes products with each of their candidate tilings.
class OnCardLowMatmul : public testing::OnHopper {
 protected:
  Operand random(const Shape& shape, const LayoutChoice& choice = {}, DType dtype = DType::bf16) {
    return testing::random_operand(dtype, shape, random_, choice);
  }

  struct Product {
    Product(const Operand& left, const Operand& right, DType result, bool adds, bool pads = false)
        : a(left),
          b(right),
          problem(low_problem(a.layout, b.layout, result, adds, pads)),
          plan(*LowMatmulPlan::of(problem)),
          workspace_bytes(cuda::map_matmul(problem).workspace_bytes()) {
      elements = problem.batch_count() * problem.c.rows * problem.c.row_stride;
    }
    Operand a, b;
    MatmulProblem problem;
    LowMatmulPlan plan;
    std::size_t workspace_bytes;
    std::int64_t elements;
  };
  std::vector<LowTiling> candidates(const Product& product) const {
    return product.plan.candidates(context_->card().multiprocessors, product.workspace_bytes);
  }

  std::vector<std::byte> multiply(const Product& product, const LowTiling& tiling) {
    const DeviceCopy a(*device_, product.a.storage);
    const DeviceCopy b(*device_, product.b.storage);
    const std::size_t bytes = static_cast<std::size_t>(product.elements) * size_bytes(product.problem.c.dtype);
    const DeviceCopy c(*device_, std::vector(bytes + kGuardBytes, product.problem.adds ? std::byte{0} : kGuard));
    const DeviceCopy workspace(*device_, std::vector(product.workspace_bytes + kGuardBytes, kGuard));
    cuda::LowMatmulLaunch launch(*context_, product.plan, tiling);
    launch.launch(
        {a.address(), b.address(), product.problem.adds ? c.address() : nullptr, c.address(), workspace.address()});
    device_->synchronize();
    std::vector<std::byte> result = c.read();
    const std::byte guard = product.problem.adds ? std::byte{0} : kGuard;
    const auto is_whole = [](const std::vector<std::byte>& memory, std::byte kept) {
      return std::all_of(memory.end() - kGuardBytes, memory.end(), [&](std::byte x) { return x == kept; });
    };
    EXPECT_TRUE(is_whole(result, guard)) << tiling.to_text() << " wrote past the end of c";
    EXPECT_TRUE(is_whole(workspace.read(), kGuard)) << tiling.to_text() << " wrote past the end of the workspace";
    result.resize(bytes);
    return result;
  }

  // Each element must be within the rounding of a sum of k products in fp32, and of the result.
  void expect_every_tiling_exact(const Operand& a, const Operand& b, DType result, bool adds = false) {
    const Product product(a, b, result, adds);
    std::vector<double> exact, tolerance;
    compute(product, exact, tolerance);
    for (const LowTiling& tiling : candidates(product)) {
      const std::vector<std::byte> values = multiply(product, tiling);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double value = load_element(result, values.data() + i * size_bytes(result));
        ASSERT_LE(std::fabs(value - exact[i]), tolerance[i])
            << product.plan.function_name(tiling) << ' ' << tiling.to_text() << ", element " << i << " of "
            << a.type().to_string() << " x " << b.type().to_string();
      }
    }
  }

  static void compute(const Product& product, std::vector<double>& exact, std::vector<double>& tolerance) {
    const std::int64_t depth = product.a.layout.shape[-1];
    const Shape& a_shape = product.a.layout.shape;
    const Shape shape = with_size(a_shape, a_shape.rank() - 1, product.b.layout.shape[-1]);
    const std::vector<double> a = elements_of(product.a);
    const std::vector<double> b = elements_of(product.b);
    const DType result = product.problem.c.dtype;
    const double rounding = result == DType::fp32 ? 0x1p-24 : result == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const std::int64_t columns = shape[-1];
    const std::int64_t rows = shape[-2];
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t b_row = i / (rows * columns) * depth + k;
        const double term = a[static_cast<std::size_t>(i / columns * depth + k)] *
                            b[static_cast<std::size_t>(b_row * columns + i % columns)];
        sum += term;
        magnitude += std::fabs(term);
      }
      exact.push_back(sum);
      tolerance.push_back(static_cast<double>(depth + 1) * 0x1p-23 * magnitude + 1.01 * rounding * std::fabs(sum));
    }
  }

  // In the order of the shape, whatever the strides are.
  static std::vector<double> elements_of(const Operand& operand) {
    std::vector<double> elements;
    for (std::int64_t i = 0; i < operand.layout.shape.elements(); ++i) {
      elements.push_back(operand.at(testing::unravel(operand.layout.shape, i)));
    }
    return elements;
  }

  static constexpr std::byte kGuard{0x7f};
  static constexpr std::size_t kGuardBytes = 64;

  std::mt19937 random_{11};
};

TEST_F(OnCardLowMatmul, agrees_with_double_in_every_layout_type_and_tiling) {
  const std::array<std::pair<LayoutChoice, LayoutChoice>, 3> forms = {
      {{kByRows, kByColumns}, {kByRows, kByRows}, {kByColumns, kByRows}}};
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {8, 8, 8}, {64, 64, 64}, {136, 200, 264}, {32, 520, 256}, {304, 392, 328}, {520, 72, 136}}) {
    for (const auto& [a, b] : forms) {
      for (const DType dtype : {DType::bf16, DType::fp16}) {
        for (const DType result : {dtype, DType::fp32}) {
          expect_every_tiling_exact(random({m, k}, a, dtype), random({k, n}, b, dtype), result);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(OnCardLowMatmul, agrees_with_double_on_batches_and_padded_rows) {
  expect_every_tiling_exact(random({5, 40, 72}), random({5, 72, 48}), DType::bf16);
  expect_every_tiling_exact(random({3, 136, 64}), random({3, 64, 264}, {.storage_order = {0, 2, 1}}), DType::bf16);
  expect_every_tiling_exact(random({100, 200}, {.padding = 8}), random({200, 64}, {.padding = 16}), DType::bf16);
}

// The logits of an odd vocabulary, and the products with their gradient: its rows are padded, and what lies beside them
// is NaN.
TEST_F(OnCardLowMatmul, agrees_with_double_on_rows_of_odd_length_that_are_padded) {
  const auto with_nan_beside = [](Operand operand) {
    const std::int64_t columns = operand.layout.shape[1], row = operand.layout.strides[0];
    for (std::int64_t i = 0; i < operand.layout.shape[0]; ++i) {
      for (std::int64_t j = columns; j < row && i * row + j < std::ssize(operand.storage) / 2; ++j)
        store_element(operand.layout.dtype, operand.storage.data() + (i * row + j) * 2, NAN);
    }
    return operand;
  };
  const Operand x = random({136, 72});
  const Product product(x, random({72, 331}, kByColumns), DType::bf16, false, true);
  ASSERT_EQ(product.problem.c.row_stride, 336);
  std::vector<double> exact, tolerance;
  compute(product, exact, tolerance);
  for (const LowTiling& tiling : candidates(product)) {
    const std::vector<std::byte> values = multiply(product, tiling);
    for (std::int64_t i = 0; i < 136 * 336; ++i) {
      const std::byte* element = values.data() + i * 2;
      if (i % 336 >= 331) {
        // The copy engine writes zeros up to a multiple of 16 bytes, which nothing reads.
        const bool is_kept = element[0] == kGuard && element[1] == kGuard;
        ASSERT_TRUE(is_kept || load_element(DType::bf16, element) == 0)
            << tiling.to_text() << " wrote " << load_element(DType::bf16, element) << " beside row " << i / 336
            << ", column " << i % 336;
        continue;
      }
      const auto at = static_cast<std::size_t>(i / 336 * 331 + i % 336);
      ASSERT_LE(std::fabs(load_element(DType::bf16, element) - exact[at]), tolerance[at]) << tiling.to_text() << i;
    }
  }
  const Operand gradient = with_nan_beside(random({136, 331}, {.padding = 5}));
  expect_every_tiling_exact(gradient, random({331, 72}), DType::bf16);
  Operand turned = gradient;
  turned.layout.shape = Shape{331, 136};
  std::swap(turned.layout.strides[0], turned.layout.strides[1]);
  expect_every_tiling_exact(turned, x, DType::fp32);
}

// What the race chooses among: the library's algorithms too.
TEST_F(OnCardLowMatmul, every_way_that_the_race_finds_agrees_with_double) {
  for (const auto& [a, b] :
       {std::pair(random({154, 136}), random({136, 576}, kByColumns)),
        std::pair(random({339, 72}), random({72, 240}, kByColumns)), std::pair(random({136, 520}), random({520, 264})),
        std::pair(random({136, 520}, kByColumns), random({520, 264}))}) {
    const Product product(a, b, DType::bf16, false);
    std::vector<double> exact, tolerance;
    compute(product, exact, tolerance);
    const cuda::LtProblem mapped = cuda::map_matmul(product.problem);
    const cuda::MatmulPlan plan(*context_, mapped);
    const cuda::OwnMatmuls own = cuda::OwnMatmuls::of(context_->card(), product.problem);
    cuda::MatmulSearch search(*context_, plan, mapped, own);
    search.fastest(plan.candidates(12));
    const DeviceCopy left(*device_, a.storage), right(*device_, b.storage);
    const DeviceCopy workspace(*device_, std::vector(product.workspace_bytes, kGuard));
    EXPECT_GT(search.ways().size(), 12U);
    for (std::size_t way = 0; way < search.ways().size(); ++way) {
      const DeviceCopy c(*device_, std::vector(exact.size() * 2, kGuard));
      // The library's first operand is the node's second.
      search.launch(way)({right.address(), left.address(), c.address(), workspace.address()});
      device_->synchronize();
      const std::vector<std::byte> values = c.read();
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_LE(std::fabs(load_element(DType::bf16, values.data() + 2 * i) - exact[i]), tolerance[i])
            << cuda::algorithm_to_text(search.ways()[way]) << ", element " << i << " of " << a.type().to_string()
            << " x " << b.type().to_string();
      }
    }
  }
}

TEST_F(OnCardLowMatmul, adds_to_what_is_there) {
  expect_every_tiling_exact(random({136, 520}, kByColumns), random({520, 264}), DType::fp32, true);
  expect_every_tiling_exact(random({136, 520}), random({520, 264}), DType::bf16, true);
}

TEST_F(OnCardLowMatmul, repeats_bit_for_bit) {
  const Product product(random({192, 4096}), random({4096, 192}), DType::fp32, false);
  for (const LowTiling& tiling : candidates(product)) {
    const std::vector<std::byte> first = multiply(product, tiling);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(multiply(product, tiling), first) << tiling.to_text();
  }
}

// Each launch begins with flags of 0, after any other launch.
TEST_F(OnCardLowMatmul, launches_of_any_size_may_follow_one_another_at_once) {
  const Product product(random({192, 4096}), random({4096, 192}), DType::fp32, false);
  const DeviceCopy a(*device_, product.a.storage);
  const DeviceCopy b(*device_, product.b.storage);
  const DeviceCopy workspace(*device_, std::vector(product.workspace_bytes, kGuard));
  const std::vector<LowTiling> tilings = candidates(product);
  std::vector<std::unique_ptr<cuda::LowMatmulLaunch>> launches;
  std::vector<std::unique_ptr<DeviceCopy>> results;
  for (const LowTiling& tiling : tilings) {
    launches.push_back(std::make_unique<cuda::LowMatmulLaunch>(*context_, product.plan, tiling));
    results.push_back(std::make_unique<DeviceCopy>(
        *device_, std::vector(static_cast<std::size_t>(product.elements) * sizeof(float), kGuard)));
  }
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      launches[i]->launch({a.address(), b.address(), nullptr, results[i]->address(), workspace.address()});
    }
  }
  device_->synchronize();
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(results[i]->read(), multiply(product, tilings[i])) << tilings[i].to_text();
  }
}

TEST_F(OnCardLowMatmul, spoils_only_the_row_and_the_column_of_what_is_not_finite) {
  Operand a = random({64, 192});
  Operand b = random({192, 64});
  store_element(DType::bf16, a.storage.data() + (2 * 192 + 100) * 2, INFINITY);
  store_element(DType::bf16, b.storage.data() + (7 * 64 + 5) * 2, NAN);
  const Product product(a, b, DType::fp32, false);
  for (const LowTiling& tiling : candidates(product)) {
    const std::vector<std::byte> c = multiply(product, tiling);
    for (std::size_t i = 0; i < 64 * 64; ++i) {
      const bool is_spoiled = i / 64 == 2 || i % 64 == 5;
      EXPECT_EQ(std::isfinite(load_element(DType::fp32, c.data() + i * 4)), !is_spoiled) << tiling.to_text() << i;
    }
  }
}

}  // namespace
}  // namespace ridgepoint
