// Compares flash attention with its decomposition on the reference back end, at sizes of several blocks and at sizes
// that no block divides.
#include "backends/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/cpu/kernel_harness.h"
#include "core/threads/parallel.h"
#include "ops/attention_form.h"
#include "ops/rule.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

struct Case {
  Shape queries, keys;
  bool causal = false;
  DType dtype = DType::fp32;
  std::optional<double> scale = {};  // default: 1 / sqrt(head size)
  bool plain = false;                // as its decomposition
  std::int64_t window = 0;
  double soft_cap = 0;
};

// The result, the log-sum-exp, and the gradients of sum(o w).
Graph attention_graph(const Case& c) {
  Graph graph;
  const Value q = input(graph, "q", {c.dtype, c.queries}, Role::data);
  const Value k = input(graph, "k", {c.dtype, c.keys}, Role::data);
  const Value v = input(graph, "v", {c.dtype, c.keys}, Role::data);
  const Value w = input(graph, "w", {c.dtype, c.queries}, Role::data);
  const double scale = c.scale.value_or(1.0 / std::sqrt(static_cast<double>(c.queries[-1])));
  Attributes attributes =
      attributes_of({.scale = scale, .causal = c.causal, .window = c.window, .soft_cap = c.soft_cap});
  attributes.set(kPlainAttribute, c.plain);
  const std::vector<Value> made = graph.node(make_node(graph, Op::attention, {q, k, v}, attributes)).outputs;
  const Value o = made[0];
  std::vector<std::int64_t> axes;
  for (int i = 0; i < c.queries.rank(); ++i) axes.push_back(i);
  const Value loss = reduce_sum(graph, mul(graph, o, w), axes, false);
  graph.add_output("o", o);
  graph.add_output("log_sum_exp", made[1]);
  const std::vector<Value> gradients = differentiate(graph, loss, std::array{q, k, v});
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::array{"dq", "dk", "dv"}[i], gradients[i]);
  return graph;
}

void set(HostTensor& tensor, std::int64_t element, double value) {
  const std::size_t offset = static_cast<std::size_t>(element) * size_bytes(tensor.type.dtype);
  store_element(tensor.type.dtype, tensor.data.data() + offset, value);
}

double get(const HostTensor& tensor, std::int64_t element) {
  const std::size_t offset = static_cast<std::size_t>(element) * size_bytes(tensor.type.dtype);
  return load_element(tensor.type.dtype, tensor.data.data() + offset);
}

Tensors random_tensors(const Graph& graph) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    HostTensor tensor(graph.type(node.outputs[0]));
    for (std::int64_t i = 0; i < tensor.type.elements(); ++i) set(tensor, i, normal(random));
    tensors.emplace(node.attributes.get<std::string>("name"), std::move(tensor));
  }
  return tensors;
}

std::string describe(const Case& c) {
  return std::string(name(c.dtype)) + " " + c.queries.to_string() + " against " + c.keys.to_string() +
         (c.causal ? " causal" : "") + (c.window > 0 ? " window " + std::to_string(c.window) : "") +
         (c.soft_cap > 0 ? " cap " + std::to_string(c.soft_cap) : "");
}

// The root mean square of error(i) over the elements.
template <typename Error>
double root_mean_square(const HostTensor& tensor, const Error& error) {
  double squares = 0;
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) squares += error(i) * error(i);  // NaN stays
  return std::sqrt(squares / static_cast<double>(tensor.type.elements()));
}

double difference(const HostTensor& a, const HostTensor& b) {
  return root_mean_square(b, [&](std::int64_t i) { return get(a, i) - get(b, i); });
}

// The tensor after it is moved away from zero and back, which leaves rounding errors.
double rounding_error(const HostTensor& exact, DType dtype) {
  const auto rounded = [&](double x) {
    std::array<std::byte, 8> element{};
    store_element(dtype, element.data(), x);
    return load_element(dtype, element.data());
  };
  return root_mean_square(exact, [&](std::int64_t i) {
    const double x = get(exact, i);
    return rounded(rounded(rounded(x) + 0.3) - 0.3) - x;
  });
}

// The error must be at most twice that of the decomposition in the same precision, plus rounding, as a root mean square
// over all elements. An element's error is a sum of roundings of either sign: the root mean square of N elements is
// stable to 1 / sqrt(N) for any order of sums, but the largest error is random. One element of 100,000 that is wrong by
// 1e-4 of their size still doubles the fp32 root mean square.
void expect_as_good_as_plain_ops(const Case& c) {
  const Graph graph = attention_graph(c);
  Case in_double = c;
  in_double.dtype = DType::fp64;
  const Graph exact_graph = attention_graph(in_double);
  const Tensors inputs = random_tensors(graph);
  const Tensors exact =
      testing::run_graph(exact_graph, open_device("reference"), testing::converted_inputs(inputs, exact_graph));
  Case in_plain_ops = c;
  in_plain_ops.plain = true;
  const Tensors plain = testing::run_graph(attention_graph(in_plain_ops), open_device("cpu"), inputs);
  const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
  for (const auto& [tensor, value] : exact) {
    const double allowed =
        2 * difference(plain.at(tensor), value) + 2 * rounding_error(value, found.at(tensor).type.dtype);
    EXPECT_LE(difference(found.at(tensor), value), allowed) << tensor << " of " << describe(c);
  }
}

TEST(CpuAttention, agrees_with_plain_ops_in_double) {
  for (const Case& c : {Case{{2, 3, 300, 40}, {2, 3, 300, 40}, true}, Case{{2, 300, 64}, {2, 530, 64}},
                        Case{{1, 1, 16}, {1, 1, 16}, true}, Case{{3, 8}, {257, 8}}, Case{{513, 80}, {513, 80}, true},
                        Case{{2, 129, 7}, {2, 129, 7}, true}, Case{{130, 800}, {70, 800}}}) {
    const Graph graph = attention_graph(c);
    const Tensors inputs = random_tensors(graph);
    const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    for (const int threads : {1, 2, 5}) {
      const Tensors found = testing::run_graph(graph, testing::cpu_with_threads(threads), inputs);
      for (const auto& [tensor, value] : expected) {
        EXPECT_LT(testing::relative_error(found.at(tensor), value), 2e-6)
            << tensor << " of " << c.queries.to_string() << " on " << threads << " threads";
      }
    }
  }
  set_thread_count(0);
}

class CpuAttentionDtypes : public ::testing::TestWithParam<DType> {};

TEST_P(CpuAttentionDtypes, any_length_is_as_good_as_plain_ops) {
  for (const std::int64_t length : {1, 3, 113, 239, 799, 1023}) {
    // With few elements the largest error is random.
    const std::int64_t batch = std::clamp<std::int64_t>(800 / length, 2, 64);
    for (const bool causal : {false, true}) {
      expect_as_good_as_plain_ops({{batch, length, 16}, {batch, length, 16}, causal, GetParam()});
    }
  }
}

TEST_P(CpuAttentionDtypes, any_head_size_is_as_good_as_plain_ops) {
  for (const std::int64_t size : {1, 8, 16, 32, 64, 80, 128, 256, 800}) {
    for (const bool causal : {false, true}) {
      expect_as_good_as_plain_ops({{2, 239, size}, {2, 239, size}, causal, GetParam()});
    }
  }
}

TEST_P(CpuAttentionDtypes, fewer_and_more_queries_than_keys_are_as_good_as_plain_ops) {
  for (const auto& [queries, keys] : {std::pair{1, 799}, {113, 530}, {530, 113}, {300, 1}}) {
    expect_as_good_as_plain_ops({{3, queries, 64}, {3, keys, 64}, false, GetParam()});
  }
}

TEST_P(CpuAttentionDtypes, a_scale_that_is_not_positive_is_as_good_as_plain_ops) {
  for (const double scale : {-0.2, 0.0}) {
    for (const bool causal : {false, true}) {
      expect_as_good_as_plain_ops({{8, 300, 32}, {8, 300, 32}, causal, GetParam(), scale});
    }
  }
}

TEST_P(CpuAttentionDtypes, a_scale_that_is_not_finite_makes_what_plain_ops_make_of_it) {
  for (const double scale : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Graph graph = attention_graph({{130, 16}, {130, 16}, true, GetParam(), scale});
    const Tensors inputs = random_tensors(graph);
    const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
    for (const auto& [tensor, value] : expected) {
      // The log-sum-exp of scores that are all -inf is -inf here.
      if (tensor == "log_sum_exp" && std::isinf(scale)) continue;
      for (std::int64_t i = 0; i < value.type.elements(); ++i) {
        ASSERT_EQ(std::isnan(get(found.at(tensor), i)), std::isnan(get(value, i))) << tensor << " at scale " << scale;
      }
    }
  }
}

// Windows at the edges of the blocks of 128 queries and 256 keys, of several heads that share keys.
TEST_P(CpuAttentionDtypes, a_window_is_as_good_as_plain_ops) {
  for (const std::int64_t window : {1, 2, 15, 127, 128, 129, 200, 255, 256, 257, 300, 798, 799, 5000}) {
    Case c{{2, 799, 16}, {1, 799, 16}, true, GetParam()};
    c.window = window;
    expect_as_good_as_plain_ops(c);
  }
}

TEST_P(CpuAttentionDtypes, a_soft_cap_is_as_good_as_plain_ops) {
  for (const std::int64_t window : {0, 130}) {
    Case c{{2, 530, 32}, {2, 530, 32}, true, GetParam(), 0.5};
    c.window = window;
    c.soft_cap = 2;
    expect_as_good_as_plain_ops(c);
  }
}

TEST_P(CpuAttentionDtypes, several_threads_share_one_matrix) {
  const Case c{{1, 799, 32}, {1, 799, 32}, true, GetParam()};
  const Graph graph = attention_graph(c);
  const Tensors inputs = random_tensors(graph);
  const Tensors alone = testing::run_graph(graph, testing::cpu_with_threads(1), inputs);
  const double unit = c.dtype == DType::fp32 ? 1e-6 : 4e-3;
  for (const int threads : {2, 3, 5}) {
    const Tensors shared = testing::run_graph(graph, testing::cpu_with_threads(threads), inputs);
    for (const auto& [tensor, value] : alone) {
      EXPECT_LT(testing::relative_error(shared.at(tensor), value), unit) << tensor << " on " << threads << " threads";
    }
  }
  set_thread_count(0);
}

TEST_P(CpuAttentionDtypes, repeats_bit_for_bit) {
  const Graph graph = attention_graph({{4, 300, 32}, {4, 300, 32}, true, GetParam()});
  const Tensors inputs = random_tensors(graph);
  const Tensors first = testing::run_graph(graph, testing::cpu_with_threads(3), inputs);
  const Tensors second = testing::run_graph(graph, testing::cpu_with_threads(3), inputs);
  for (const auto& [tensor, value] : first) EXPECT_EQ(second.at(tensor).data, value.data) << tensor;
  set_thread_count(0);
}

// The rows of the result that are NaN, and whether every element of each is NaN.
std::vector<bool> rows_with_nan(const HostTensor& tensor) {
  const std::int64_t width = tensor.type.shape[-1];
  std::vector<bool> rows;
  for (std::int64_t i = 0; i < tensor.type.elements(); i += width) {
    std::int64_t count = 0;
    for (std::int64_t j = 0; j < width; ++j) count += std::isnan(get(tensor, i + j)) ? 1 : 0;
    EXPECT_TRUE(count == 0 || count == width) << "row " << i / width;
    rows.push_back(count > 0);
  }
  return rows;
}

TEST_P(CpuAttentionDtypes, nan_reaches_the_queries_that_plain_ops_give_it_to) {
  const Graph graph = attention_graph({{600, 16}, {600, 16}, true, GetParam()});
  for (const auto& [tensor, element] : {std::pair{"q", 300 * 16}, {"k", 300 * 16 + 3}, {"k", 0}}) {
    for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      Tensors inputs = random_tensors(graph);
      set(inputs.at(tensor), element, value);
      const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
      const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
      EXPECT_EQ(rows_with_nan(found.at("o")), rows_with_nan(expected.at("o"))) << tensor << " with " << value;
    }
  }
}

// The decomposition gives dq of every query NaN, because 0 times NaN is NaN.
TEST_P(CpuAttentionDtypes, a_hidden_key_that_is_nan_reaches_nothing) {
  constexpr std::int64_t kKey = 300;
  const Graph graph = attention_graph({{600, 16}, {600, 16}, true, GetParam()});
  Tensors inputs = random_tensors(graph);
  const Tensors without = testing::run_graph(graph, testing::cpu_with_threads(2), inputs);
  set(inputs.at("k"), kKey * 16 + 3, std::nan(""));
  const Tensors found = testing::run_graph(graph, testing::cpu_with_threads(2), inputs);
  set_thread_count(0);
  for (const char* tensor : {"o", "dq", "log_sum_exp"}) {
    const HostTensor& value = found.at(tensor);
    const std::int64_t width = value.type.elements() / 600;
    for (std::int64_t i = 0; i < value.type.elements(); ++i) {
      if (i / width >= kKey) {
        ASSERT_TRUE(std::isnan(get(value, i))) << tensor << " row " << i / width;
      } else {
        ASSERT_EQ(get(value, i), get(without.at(tensor), i)) << tensor << " row " << i / width;
      }
    }
  }
}

// 0 times NaN is NaN, so a NaN shows what a kernel multiplies: values and gradients outside of the window are not read.
TEST_P(CpuAttentionDtypes, blocks_outside_of_the_window_are_skipped) {
  constexpr std::int64_t kLength = 1500, kWindow = 100, kAt = 700;
  Case c{{1, kLength, 16}, {1, kLength, 16}, true, GetParam()};
  c.window = kWindow;
  const Graph graph = attention_graph(c);
  Tensors inputs = random_tensors(graph);
  set(inputs.at("v"), kAt * 16, std::nan(""));
  const HostTensor o = testing::run_graph(graph, open_device("cpu"), inputs).at("o");
  inputs = random_tensors(graph);
  set(inputs.at("w"), kAt * 16, std::nan(""));
  const Tensors gradients = testing::run_graph(graph, open_device("cpu"), inputs);
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t row = 0; row < kLength; ++row) {
    if (row < kAt - kBlock || row > kAt + kWindow + kBlock) {
      ASSERT_FALSE(std::isnan(get(o, row * 16))) << "o of query " << row;
    }
    if (row < kAt - kWindow - kBlock || row > kAt + kBlock) {
      ASSERT_FALSE(std::isnan(get(gradients.at("dv"), row * 16))) << "dv of key " << row;
    }
  }
  EXPECT_TRUE(std::isnan(get(o, (kAt + kWindow - 1) * 16)));
  EXPECT_TRUE(std::isnan(get(gradients.at("dv"), (kAt - kWindow + 1) * 16)));
}

// The first block of keys is all NaN, or all with weight 0, and later ones are not.
TEST_P(CpuAttentionDtypes, a_block_of_nan_is_not_one_of_no_weight) {
  const Graph graph = attention_graph({{3, 1}, {600, 1}, false, GetParam()});
  for (const double value : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    Tensors inputs = random_tensors(graph);
    for (std::int64_t i = 0; i < 3; ++i) set(inputs.at("q"), i, 0.5);
    for (std::int64_t i = 0; i < 300; ++i) set(inputs.at("k"), i, value);
    const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
    for (const char* tensor : {"o", "log_sum_exp"}) {
      EXPECT_LT(testing::relative_error(found.at(tensor), expected.at(tensor)), 1e-2) << tensor << " with " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuAttentionDtypes, ::testing::Values(DType::fp32, DType::bf16, DType::fp16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(CpuAttention, large_scores_neither_overflow_nor_vanish) {
  const Case c{{40, 16}, {600, 16}};
  const Graph graph = attention_graph(c);
  Tensors inputs = random_tensors(graph);
  for (float& x : inputs.at("q").as<float>()) x *= 100.0F;
  const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
  const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
  for (const char* tensor : {"o", "log_sum_exp"}) {
    EXPECT_LT(testing::relative_error(found.at(tensor), expected.at(tensor)), 1e-4) << tensor;
  }
}

}  // namespace
}  // namespace ridgepoint
