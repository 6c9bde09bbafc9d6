// Products whose epilogue is cross-entropy on a GPU: every way to compute them against double.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/cuda/card_harness.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/loss_case.h"
#include "core/rounding.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

using testing::DeviceCopy;
using testing::LossCase;

// By name, as doubles.
std::map<std::string, std::vector<double>> results_of_model(const std::shared_ptr<Device>& device,
                                                            const Transformer& workload, Precision precision,
                                                            std::optional<std::int64_t> chunk,
                                                            std::vector<std::string> skip) {
  ProgramOptions options{
      .compile = {
          .mode = Mode::forward_backward, .precision = precision, .level = Compile::fuse, .loss_chunk_rows = chunk}};
  options.compile.skip = std::move(skip);
  Program program(workload.build(), device, options);
  initialise(program, workload, 0);
  program.run();
  std::map<std::string, std::vector<double>> results;
  for (const Output& output : program.graph().outputs()) {
    const HostTensor tensor = program.read_output(output.name);
    std::vector<double>& values = results[output.name];
    for (std::size_t at = 0; at < tensor.data.size(); at += size_bytes(tensor.type.dtype))
      values.push_back(load_element(tensor.type.dtype, tensor.data.data() + at));
  }
  return results;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void expect_near(const std::map<std::string, std::vector<double>>& found,
                 const std::map<std::string, std::vector<double>>& expected, double most_of_loss, double most) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    std::vector<double> difference = found.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    EXPECT_LE(norm_of(difference), (name == "loss" ? most_of_loss : most) * norm_of(values)) << name;
    EXPECT_GT(norm_of(values), 0) << name;
  }
}

class OnCardCrossEntropyOfProduct : public testing::OnHopper {
 protected:
  using Results = std::vector<std::vector<double>>;

  static constexpr std::byte kGuard{0x7f};

  // The elements of rows. The copy engine writes whole vectors of 16 bytes, so it writes what completes the last one of
  // a row; the padding behind it is not written.
  std::vector<double> read(const DeviceCopy& copy, const TensorLayout& layout) {
    std::vector<double> values;
    const std::vector<std::byte> bytes = copy.read();
    const std::size_t element_bytes = size_bytes(layout.dtype);
    const auto vector_elements = static_cast<std::int64_t>(16 / element_bytes);
    const std::int64_t columns = layout.shape[-1], row = layout.shape.rank() == 2 ? layout.strides[0] : columns;
    for (std::size_t at = 0; at < bytes.size(); at += element_bytes) {
      const std::int64_t column = static_cast<std::int64_t>(at / element_bytes) % row;
      if (column < columns) {
        values.push_back(load_element(layout.dtype, bytes.data() + at));
      } else if (column >= round_up(columns, vector_elements)) {
        EXPECT_EQ(bytes[at], kGuard);
      }
    }
    return values;
  }

  Results run(Kernel& way, const LossCase& some, std::vector<void*> inputs) {
    way.prepare();
    std::vector<std::unique_ptr<DeviceCopy>> outputs;
    std::vector<void*> addresses;
    for (const TensorLayout& layout : some.results) {
      const std::size_t bytes =
          static_cast<std::size_t>(layout.shape[0] * layout.strides[0]) * size_bytes(layout.dtype);
      outputs.push_back(std::make_unique<DeviceCopy>(*device_, std::vector(bytes, kGuard)));
      addresses.push_back(outputs.back()->address());
    }
    const DeviceCopy workspace(*device_, std::vector(way.workspace_bytes() + 1, kGuard));
    way.launch({inputs.data(), addresses.data(), workspace.address()});
    device_->synchronize();
    Results results;
    for (std::size_t i = 0; i < outputs.size(); ++i) results.push_back(read(*outputs[i], some.results[i]));
    return results;
  }

  // The results of each way.
  std::vector<Results> run(const LossCase& some, const std::vector<testing::Operand>& operands) {
    std::vector<std::unique_ptr<DeviceCopy>> inputs;
    std::vector<void*> addresses;
    for (const testing::Operand& operand : operands) {
      inputs.push_back(std::make_unique<DeviceCopy>(*device_, operand.storage));
      addresses.push_back(inputs.back()->address());
    }
    const auto plan = some.plan();
    EXPECT_TRUE(plan.has_value());
    std::vector<Results> all;
    for (const auto& way : cuda::fused_product_ways(*context_, some.spec(), &*plan)) {
      all.push_back(run(*way, some, addresses));
      const Results again = run(*way, some, addresses);
      for (std::size_t i = 0; i < again.size(); ++i) {
        EXPECT_THAT(again[i], ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), all.back()[i])) << way->name();
      }
    }
    return all;
  }

  // x [T,K], w [V,K] as [K,V], and targets, of which every fifth lies outside the vocabulary.
  std::vector<testing::Operand> operands_of(const LossCase& some) {
    std::vector<testing::Operand> operands;
    operands.push_back(testing::random_operand(some.layouts[0].dtype, some.layouts[0].shape, random_));
    operands.push_back(
        testing::random_operand(some.layouts[1].dtype, some.layouts[1].shape, random_, {.storage_order = {1, 0}}));
    const std::int64_t tokens = some.layouts[0].shape[0];
    const std::int64_t vocabulary = some.layouts[1].shape[1];
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t outside = i % 2 == 0 ? -1 - i : vocabulary + i;
      targets.push_back(i % 5 == 4 ? outside
                                   : static_cast<std::int64_t>(random_() % static_cast<unsigned>(vocabulary)));
    }
    targets.back() = vocabulary - 1;
    operands.push_back(testing::index_operand({tokens}, targets));
    return operands;
  }

  static double log_sum_exp(const double* row, std::int64_t vocabulary) {
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < vocabulary; ++j) top = std::fmax(top, row[j]);
    double sum = 0;
    for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(row[j] - top);
    return top + std::log(sum);
  }

  // Losses and log-sum-exps of the logits that a way has written.
  void expect_losses_of_logits(const Results& results, const LossCase& some, const testing::Operand& targets) {
    const std::int64_t tokens = some.layouts[0].shape[0];
    const std::int64_t vocabulary = some.layouts[1].shape[1];
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double* row = results[0].data() + i * vocabulary;
      const double expected = log_sum_exp(row, vocabulary);
      const auto target = static_cast<std::int64_t>(targets.at(std::array{i}));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(results[2][at])) << "row " << i;
      } else {
        EXPECT_NEAR(results[2][at], expected, 1e-6 * std::fmax(1, std::fabs(expected))) << "row " << i;
      }
      if (std::isnan(expected) || target < 0 || target >= vocabulary) {
        EXPECT_TRUE(std::isnan(results[1][at])) << "row " << i;
      } else {
        EXPECT_NEAR(results[1][at], expected - row[target], 2e-6 * std::fmax(1, std::fabs(expected))) << "row " << i;
      }
    }
  }

  void expect_exact(std::int64_t tokens, std::int64_t inner, std::int64_t vocabulary, DType dtype) {
    SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(inner) + " x " + std::to_string(vocabulary));
    const LossCase kept(true, tokens, inner, vocabulary, dtype);
    const std::vector<testing::Operand> operands = operands_of(kept);
    std::vector<double> x, w;  // rows of x, and columns of w
    for (std::int64_t i = 0; i < tokens * inner; ++i) x.push_back(operands[0].at(std::array{i / inner, i % inner}));
    for (std::int64_t i = 0; i < vocabulary * inner; ++i) w.push_back(operands[1].at(std::array{i % inner, i / inner}));
    const std::vector<Results> ways = run(kept, operands);
    for (const Results& results : ways) {
      expect_losses_of_logits(results, kept, operands[2]);
      for (std::int64_t i = 0; i < tokens * vocabulary; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += x[static_cast<std::size_t>(i / vocabulary * inner + k)] *
                 w[static_cast<std::size_t>(i % vocabulary * inner + k)];
        }
        const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
        ASSERT_NEAR(results[0][static_cast<std::size_t>(i)], sum, rounding * std::fabs(sum) + 1e-4) << "element " << i;
      }
    }
    const LossCase alone(false, tokens, inner, vocabulary, dtype);
    const std::vector<Results> without_logits = run(alone, operands);
    ASSERT_EQ(without_logits.size() + 1, ways.size()) << "two steps write logits";
    for (std::size_t i = 0; i < without_logits.size(); ++i) {
      EXPECT_THAT(without_logits[i][0], ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), ways[i + 1][1]));
    }
  }

  std::mt19937 random_{17};
};

TEST_F(OnCardCrossEntropyOfProduct, agrees_with_double_in_every_way_to_compute_it) {
  for (const auto& [tokens, inner, vocabulary] : std::vector<std::array<std::int64_t, 3>>{{1, 8, 8},
                                                                                          {8, 8, 16},
                                                                                          {128, 64, 128},
                                                                                          {200, 136, 72},
                                                                                          {300, 40, 1000},
                                                                                          {520, 72, 2056},
                                                                                          {136, 64, 1027},
                                                                                          {40, 72, 1153}}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      expect_exact(tokens, inner, vocabulary, dtype);
      if (HasFatalFailure()) return;
    }
  }
}

// The vocabulary of GPT-2 is odd: with its rows padded, and without.
TEST_F(OnCardCrossEntropyOfProduct, gives_a_model_of_an_odd_vocabulary_the_same_with_and_without_padded_rows) {
  for (const bool tied : {false, true}) {
    const Transformer workload({"odd", 1027, 64, 64, 128, 1, 2, AttentionVariant::composite, {.tied_head = tied}}, 4);
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      for (const std::optional<std::int64_t> chunk :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(128)}) {
        const auto expected = results_of_model(device_, workload, precision, chunk, {"pad_rows"});
        const auto found = results_of_model(device_, workload, precision, chunk, {});
        expect_near(found, expected, precision == Precision::fp32 ? 1e-5 : 0.001,
                    precision == Precision::fp32 ? 1e-4 : 0.02);
      }
    }
  }
}

TEST_F(OnCardCrossEntropyOfProduct, adds_the_squares_of_log_sum_exps) {
  constexpr double kZ = 0.01;
  const LossCase plain(true, 200, 136, 72);
  const LossCase squared(true, 200, 136, 72, DType::bf16, kZ);
  const std::vector<testing::Operand> operands = operands_of(plain);
  const std::vector<Results> before = run(plain, operands);
  const std::vector<Results> after = run(squared, operands);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t way = 0; way < after.size(); ++way) {
    for (std::size_t row = 0; row < after[way][1].size(); ++row) {
      const double log_sum_exp = before[way][2][row];
      const double expected = before[way][1][row] + kZ * log_sum_exp * log_sum_exp;
      // The target of a row is beyond the vocabulary: its loss is NaN in both.
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(after[way][1][row])) << way << " " << row;
        continue;
      }
      ASSERT_NEAR(after[way][1][row], expected, 1e-5 * (1 + std::fabs(expected))) << way << " " << row;
    }
  }
}

// Of 16 rows the first has NaN, the second +infinity, the third -infinity in some logits, the fourth in all of them,
// and the fifth only zeros.
TEST_F(OnCardCrossEntropyOfProduct, gives_nan_for_rows_with_nan_or_infinity_and_nothing_else) {
  const LossCase some(true, 16, 8, 264);
  std::vector<testing::Operand> operands = operands_of(some);
  const double infinity = std::numeric_limits<double>::infinity();
  const auto set = [&](std::size_t operand, std::int64_t at, double value) {
    store_element(DType::bf16, operands[operand].storage.data() + at * 2, value);
  };
  // The first element of a column of w is 1, in half of the columns the second is 1 as well and otherwise -1e-30.
  for (std::int64_t j = 0; j < 264; ++j) {
    set(1, j * 8, 1);
    set(1, j * 8 + 1, j % 2 == 0 ? 1 : -0x1p-100);
  }
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t k = 0; k < 8; ++k) set(0, row * 8 + k, 0);
  }
  set(0, 0, std::numeric_limits<double>::quiet_NaN());
  set(0, 8, infinity);
  set(0, 16 + 1, -0x1p127);  // -1.7e38 and 0.13
  set(0, 16, -0x1p127);
  set(0, 24, -infinity);
  for (const Results& results : run(some, operands)) {
    for (const std::size_t row : {0U, 1U}) {
      EXPECT_TRUE(std::isnan(results[2][row])) << row;
      EXPECT_TRUE(std::isnan(results[1][row])) << row;
    }
    EXPECT_EQ(results[2][3], -infinity);
    EXPECT_TRUE(std::isnan(results[1][3]));
    EXPECT_NEAR(results[2][4], std::log(264), 1e-6);
    for (std::size_t row = 5; row < 16; ++row) EXPECT_TRUE(std::isfinite(results[2][row])) << row;
    EXPECT_TRUE(std::isinf(results[0][2 * 264])) << "two terms that overflow together";
    EXPECT_TRUE(std::isfinite(results[2][2])) << "-infinity adds nothing";
  }
}

TEST_F(OnCardCrossEntropyOfProduct, gives_a_model_the_loss_and_the_gradients_of_two_steps) {
  for (const bool tied : {false, true}) {
    const Transformer workload({"custom", 1000, 64, 64, 128, 1, 2, AttentionVariant::composite, {.tied_head = tied}},
                               4);
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      for (const std::optional<std::int64_t> chunk :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(128)}) {
        const auto expected = results_of_model(device_, workload, precision, chunk, {"fuse_into_products"});
        // Without the pass SwiGLU and rotations are kernels of their own too, which round elsewhere.
        expect_near(results_of_model(device_, workload, precision, chunk, {}), expected, 0.001, 0.05);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
