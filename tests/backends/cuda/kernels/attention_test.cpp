// Flash attention on the GPU, at lengths and head sizes that no tile divides. The error against the reference back end
// in double may be at most twice that of the decomposition in the same precision, which is the FlashAttention project's
// rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "backends/cuda/card.h"
#include "backends/cuda/kernels/hand_written.h"
#include "backends/cuda/node_run.h"
#include "ops/attention_form.h"

namespace ridgepoint {
namespace {

using testing::NodeRun;
using testing::Operand;
using testing::Tensors;

struct Case {
  DType dtype = DType::bf16;
  std::int64_t batch = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t width = 64;
  bool causal = false;
  std::optional<double> scale = {};  // default: 1 / sqrt(head size)
  std::int64_t group = 1;            // matrices of queries that read one of keys
  std::int64_t window = 0;
  double soft_cap = 0;
  bool sums_key_gradients = false;
  bool tf32 = false;

  Shape of_queries() const { return {batch, queries, width}; }
  Shape of_keys() const { return {batch / group, keys, width}; }
  Attributes attributes(Op op = Op::attention) const {
    Attributes made = attributes_of({.scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(width))),
                                     .causal = causal,
                                     .window = window,
                                     .soft_cap = soft_cap});
    if (op == Op::attention_backward && sums_key_gradients) made.set(std::string(kSumsKeyGradients), true);
    if (tf32) made.set("compute", std::string("tf32"));
    return made;
  }
  std::string text() const {
    return std::string(name(dtype)) + ' ' + of_queries().to_string() + " x " + of_keys().to_string() +
           (causal ? " causal" : "") + (scale ? fmt::format(" scale {}", *scale) : "") +
           (window > 0 ? fmt::format(" window {}", window) : "") +
           (soft_cap > 0 ? fmt::format(" cap {}", soft_cap) : "") + (sums_key_gradients ? " summed" : "") +
           (tf32 ? " tf32" : "");
  }
};

Case with_window(DType dtype, std::int64_t batch, std::int64_t length, std::int64_t width, std::int64_t window) {
  return {.dtype = dtype,
          .batch = batch,
          .queries = length,
          .keys = length,
          .width = width,
          .causal = true,
          .window = window};
}
// Scaled so that a small cap bends most scores.
Case with_soft_cap(Case c, double soft_cap) {
  c.scale = 0.5;
  c.soft_cap = soft_cap;
  return c;
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < b.type.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double x = load_element(a.type.dtype, a.data.data() + at * size_bytes(a.type.dtype));
    const double y = load_element(b.type.dtype, b.data.data() + at * size_bytes(b.type.dtype));
    largest = std::max(largest, std::isnan(x - y) ? INFINITY : std::abs(x - y));
  }
  return largest;
}

double largest_of(const HostTensor& tensor) {
  HostTensor zero(tensor.type);
  return largest_difference(tensor, zero);
}

cuda::CardFacts hopper() {
  cuda::CardFacts card;
  card.capability = {9, 0};
  card.shared_bytes_per_block = std::size_t{227} * 1024;
  return card;
}

bool has_attention(const Case& c, Op op) {
  Graph graph;
  std::vector<Value> operands;
  for (const bool of_queries : {true, false, false}) {
    const Shape shape = of_queries ? c.of_queries() : c.of_keys();
    operands.push_back(input(graph, std::to_string(operands.size()), {c.dtype, shape}, Role::data));
  }
  const Node& forward = graph.node(make_node(graph, Op::attention, operands, c.attributes()));
  if (op == Op::attention) return cuda::has_hand_written(hopper(), graph, forward);
  const Value o = forward.outputs[0];
  const Value log_sum_exp = forward.outputs[1];
  operands.insert(operands.begin(), o);  // stands in for the gradient of o
  operands.insert(operands.end(), {o, log_sum_exp});
  return cuda::has_hand_written(hopper(), graph, graph.node(make_node(graph, op, operands, c.attributes(op))));
}

TEST(CudaAttention, adds_gradients_of_shared_keys_on_hopper_alone) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 128, 256}) {
      Case c{.dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .group = 3};
      c.sums_key_gradients = true;
      EXPECT_EQ(has_attention(c, Op::attention_backward), dtype != DType::fp32) << c.text();
    }
  }
}

TEST(CudaAttention, of_16_bit_operands_takes_scales_that_are_positive_and_finite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {0.125, 1e-30, 1e38}) {
      EXPECT_TRUE(has_attention({dtype, 1, 64, 64, 64, true, scale}, Op::attention)) << name(dtype) << ' ' << scale;
    }
    // In fp32 1e-60 is 0 and 1e39 is infinity.
    for (const double scale : {0.0, -0.125, 1e-60, 1e39, kInfinity, -kInfinity, std::nan("")}) {
      const Case c{dtype, 1, 64, 64, 64, true, scale};
      EXPECT_EQ(has_attention(c, Op::attention), dtype == DType::fp32) << c.text();
      EXPECT_TRUE(has_attention(c, Op::attention_backward)) << c.text();
    }
  }
}

class OnCardAttention : public testing::OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape) { return testing::random_operand(dtype, shape, random_, {}); }
  std::vector<Operand> forward_operands(const Case& c) {
    return {random(c.dtype, c.of_queries()), random(c.dtype, c.of_keys()), random(c.dtype, c.of_keys())};
  }

  // The GPU's result with the op's decomposition in the same precision.
  std::vector<HostTensor> in_plain_ops(Op op, const std::vector<Operand>& operands, Attributes attributes) {
    attributes.set(kPlainAttribute, true);
    return in_program(op, operands, attributes);
  }
  // The GPU's result of a graph with the op, by its kernel or its decomposition.
  std::vector<HostTensor> in_program(Op op, const std::vector<Operand>& operands, const Attributes& attributes) {
    testing::LoneNode lone(op, operands, attributes);
    Tensors inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.emplace(std::to_string(i), testing::dense(operands[i], lone.graph.type(lone.values[i])));
    }
    const std::size_t count = lone.node().outputs.size();
    for (std::size_t i = 0; i < count; ++i) lone.graph.add_output(std::to_string(i), lone.node().outputs[i]);
    Tensors found = testing::run_graph(std::move(lone.graph), device_, inputs);
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < count; ++i) outputs.push_back(std::move(found.at(std::to_string(i))));
    return outputs;
  }

  // Half a unit in the last place of a result near 1; more for fp32, because gradients may be differences of larger
  // sums.
  static double unit(DType dtype) { return dtype == DType::bf16 ? 0x1p-9 : dtype == DType::fp16 ? 0x1p-12 : 0x1p-20; }
  void expect_as_good_as_plain_ops(const std::vector<HostTensor>& found, Op op, const std::vector<Operand>& operands,
                                   const Case& c) {
    expect_as_good(found, testing::reference_outputs(op, operands, c.attributes(op)),
                   in_plain_ops(op, operands, c.attributes(op)), op, c);
  }
  static void expect_as_good(const std::vector<HostTensor>& found, const std::vector<HostTensor>& expected,
                             const std::vector<HostTensor>& plain, Op op, const Case& c) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double bound = 2 * largest_difference(plain[i], expected[i]) +
                           2 * unit(found[i].type.dtype) * (0.3 + largest_of(expected[i]));
      EXPECT_LE(largest_difference(found[i], expected[i]), bound) << name(op) << " output " << i << " of " << c.text();
    }
  }
  void expect_as_good_as_plain_ops(Op op, const std::vector<Operand>& operands, const Case& c) {
    expect_as_good_as_plain_ops(run_twice(op, operands, c), op, operands, c);
  }
  std::vector<HostTensor> run_twice(Op op, const std::vector<Operand>& operands, const Case& c) {
    NodeRun run(*device_, op, operands, c.attributes(op));
    return run_twice(run);
  }
  static std::vector<HostTensor> run_twice(NodeRun& run) {
    std::vector<HostTensor> found = run.launch();
    const std::vector<HostTensor> again = run.launch();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].data, again[i].data) << run.kernel().name() << " differs from run to run";
    }
    return found;
  }
  // Of every kernel that can run the node on this card, also those that are for larger or smaller problems.
  void expect_all_as_good_as_plain_ops(Op op, const std::vector<Operand>& operands, const Case& c) {
    const testing::LoneNode lone(op, operands, c.attributes(op));
    const cuda::CardFacts& card = cuda::CudaContext::of_card(0).card();
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, c.attributes(op));
    const std::vector<HostTensor> plain = in_plain_ops(op, operands, c.attributes(op));
    for (const cuda::KernelVariant& variant : cuda::kernel_variants()) {
      if (!variant.can_run(card, lone.graph, lone.node())) continue;
      SCOPED_TRACE(variant.entry);
      NodeRun run(*device_, op, operands, c.attributes(op),
                  [&](const KernelSpec& spec) { return variant.make(cuda::CudaContext::of_card(0), spec, variant); });
      expect_as_good(run_twice(run), expected, plain, op, c);
    }
  }

  bool runs_on_card(const Case& c) {
    const std::vector<Operand> operands = forward_operands(c);
    std::vector<Operand> all = {operands[0], operands[0], operands[1], operands[2], operands[0]};
    all.push_back(random(accumulator(c.dtype), {c.batch, c.queries}));
    const testing::LoneNode lone(Op::attention_backward, all, c.attributes(Op::attention_backward));
    return device_->has_kernel(lone.graph, lone.node());
  }
  // The operands of backward, with some gradient of the output.
  std::vector<Operand> backward_operands(const std::vector<Operand>& operands, const std::vector<HostTensor>& results,
                                         const Case& c) {
    std::vector<Operand> all = {random(c.dtype, c.of_queries()), operands[0], operands[1], operands[2]};
    for (const HostTensor& result : results) all.push_back({dense_layout(result.type), result.data});
    return all;
  }
  void expect_agrees(const Case& c) {
    const std::vector<Operand> operands = forward_operands(c);
    expect_as_good_as_plain_ops(Op::attention, operands, c);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    expect_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c);
  }
  void expect_all_agree(const Case& c) {
    const std::vector<Operand> operands = forward_operands(c);
    expect_all_as_good_as_plain_ops(Op::attention, operands, c);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    expect_all_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c);
  }

  std::mt19937 random_{29};
};

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_odd_lengths) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t length : {1, 3, 64, 113, 239, 257, 799}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t width : {64, 128}) expect_agrees({dtype, 2, length, length, width, causal});
      }
    }
  }
}

// Each kernel, whatever problems it is for.
TEST_F(OnCardAttention, every_kernel_is_as_good_as_plain_ops) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t width : {64, 128, 256}) {
      for (const std::int64_t length : {1, 3, 113, 239}) {
        expect_all_agree({DType::bf16, 2, length, length, width, causal});
      }
      expect_all_agree({DType::fp16, 1, 799, 799, width, causal});
    }
    expect_all_agree({DType::bf16, 1, 1023, 1023, 80, causal});
  }
  for (const std::int64_t width : {40, 96, 200}) expect_all_agree({DType::bf16, 1, 130, 411, width, false});
}

TEST_F(OnCardAttention, every_kernel_reads_shared_keys) {
  for (const std::int64_t width : {64, 96, 128, 256}) {
    expect_all_agree(
        {.dtype = DType::bf16, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3});
  }
}

// More tiles than multiprocessors, so that thread blocks share tiles of several heads.
TEST_F(OnCardAttention, every_kernel_takes_more_heads_than_multiprocessors) {
  for (const std::int64_t width : {64, 128}) {
    expect_all_agree({DType::bf16, 140, 70, 70, width, false});
    expect_all_agree({DType::bf16, 45, 200, 200, width, true});
  }
}

TEST_F(OnCardAttention, every_kernel_may_add_gradients_of_shared_keys) {
  for (const std::int64_t width : {64, 96, 128, 256}) {
    Case c{.dtype = DType::bf16, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3};
    c.sums_key_gradients = true;
    if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
    expect_all_agree(c);
    c.causal = false;
    expect_all_agree(c);
  }
}

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_every_head_size) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {8, 16, 32, 72, 80, 96, 136, 200, 256}) {
      expect_agrees({dtype, 3, 150, 150, width, true});
      expect_agrees({dtype, 3, 300, 300, width, true});
      expect_agrees({dtype, 1, 70, 301, width, false});
    }
  }
  for (const std::int64_t width : {4, 16, 32, 80, 84, 128}) {
    expect_agrees({DType::fp32, 3, 150, 150, width, true});
    expect_agrees({DType::fp32, 1, 70, 150, width, false});
  }
}

TEST_F(OnCardAttention, fp32_of_wide_heads_is_as_good_as_plain_ops) {
  Case c{.dtype = DType::fp32, .batch = 2, .width = 256};
  if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 take them";
  for (const std::int64_t width : {132, 160, 256}) {
    c.width = width;
    for (const std::int64_t length : {1, 3, 64, 113, 239, 799}) {
      for (const bool causal : {false, true}) {
        c.causal = causal;
        c.queries = c.keys = length;
        expect_agrees(c);
      }
    }
    expect_agrees({DType::fp32, 2, 70, 301, width, false});
    expect_agrees({.dtype = DType::fp32, .batch = 6, .queries = 90, .keys = 411, .width = width, .group = 3});
  }
}

TEST_F(OnCardAttention, fp32_is_as_exact_as_fp32_sums) {
  for (const std::int64_t width : {64, 128}) {
    for (const bool causal : {false, true}) {
      const Case c{DType::fp32, 2, 1023, 1023, width, causal};
      const std::vector<Operand> operands = forward_operands(c);
      const std::vector<HostTensor> found = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
      const std::vector<HostTensor> expected = testing::reference_outputs(Op::attention, operands, c.attributes());
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_LT(testing::relative_error(found[i], expected[i]), 1e-6) << c.text() << " output " << i;
      }
      const std::vector<Operand> all = backward_operands(operands, found, c);
      const std::vector<HostTensor> gradients = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch();
      const std::vector<HostTensor> right = testing::reference_outputs(Op::attention_backward, all, c.attributes());
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LT(testing::relative_error(gradients[i], right[i]), 1e-6) << c.text() << " gradient " << i;
      }
    }
  }
}

// The error against operands that are not rounded. Plain ops round theirs to tf32, but the library may multiply small
// matrices in fp32; the kernel always rounds the operands of two products.
TEST_F(OnCardAttention, tf32_is_as_good_as_products_in_tf32) {
  for (const std::int64_t width : {20, 64, 128, 256}) {
    for (const std::int64_t length : {3, 129, 239, 799}) {
      for (const bool causal : {false, true}) {
        Case exact{DType::fp32, 2, length, length, width, causal};
        exact.group = 2;
        Case rounded = exact;
        rounded.tf32 = true;
        const std::vector<Operand> operands = forward_operands(exact);
        const std::vector<HostTensor> results = run_twice(Op::attention, operands, rounded);
        const std::vector<Operand> all = backward_operands(operands, results, exact);
        for (const Op op : {Op::attention, Op::attention_backward}) {
          const std::vector<Operand>& given = op == Op::attention ? operands : all;
          const std::vector<HostTensor> found = op == Op::attention ? results : run_twice(op, given, rounded);
          const std::vector<HostTensor> expected = testing::reference_outputs(op, given, exact.attributes());
          const std::vector<HostTensor> plain = in_plain_ops(op, given, rounded.attributes());
          for (std::size_t i = 0; i < found.size(); ++i) {
            const double bound =
                2 * largest_difference(plain[i], expected[i]) + 2 * 0x1p-11 * (0.3 + largest_of(expected[i]));
            EXPECT_LE(largest_difference(found[i], expected[i]), bound)
                << name(op) << " output " << i << " of " << rounded.text();
          }
        }
      }
    }
  }
}

TEST_F(OnCardAttention, heads_may_share_keys_and_values) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 128}) {
      for (const std::int64_t group : {2, 3, 6}) {
        expect_agrees(
            {.dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = group});
        expect_agrees({.dtype = dtype, .batch = 6, .queries = 90, .keys = 411, .width = width, .group = group});
      }
    }
  }
}

TEST_F(OnCardAttention, gradients_of_shared_keys_may_be_added) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      Case c{.dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3};
      c.sums_key_gradients = true;
      if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
      expect_agrees(c);
      c.causal = false;
      c.keys = 211;
      for (const std::int64_t group : {1, 2, 6}) {
        c.group = group;
        expect_agrees(c);
      }
      Case window = with_window(dtype, 6, 300, width, 130);
      window.group = 2;
      window.sums_key_gradients = true;
      expect_agrees(window);
      expect_agrees(with_soft_cap(window, 2));
    }
  }
}

TEST_F(OnCardAttention, gradients_of_more_shared_keys_than_run_at_a_time_may_be_added) {
  Case c{.batch = 96, .queries = 300, .keys = 300, .width = 64, .causal = true, .group = 2};
  c.sums_key_gradients = true;
  if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
  expect_agrees(c);
}

// Windows at the edges of the kernels' blocks, of which the last queries of a sequence see none of the first.
TEST_F(OnCardAttention, a_window_hides_what_lies_before_it) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::int64_t window : {1, 17, 64, 65, 128, 129, 200, 398, 5000}) {
        expect_agrees(with_window(dtype, 2, 399, width, window));
      }
    }
  }
}

TEST_F(OnCardAttention, a_window_may_have_any_length_and_head_size) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t length : {3, 113, 257, 385, 1023}) {
      for (const std::int64_t width : {64, 128}) expect_agrees(with_window(dtype, 2, length, width, 100));
    }
    for (const std::int64_t width : {8, 72, 80, 104, 200}) expect_agrees(with_window(dtype, 3, 300, width, 77));
  }
}

TEST_F(OnCardAttention, heads_that_share_keys_may_have_a_window) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t group : {2, 6}) {
      Case c = with_window(dtype, 6, 500, 128, 130);
      c.group = group;
      expect_agrees(c);
    }
  }
}

// Blocks of keys add to a gradient of q in their order, counted from the first that the window leaves.
TEST_F(OnCardAttention, a_window_leaves_an_order_of_more_blocks_than_run_at_a_time) {
  for (const std::int64_t width : {64, 128}) expect_agrees(with_window(DType::bf16, 45, 400, width, 150));
  expect_agrees(with_window(DType::fp16, 45, 400, 256, 150));
}

TEST_F(OnCardAttention, a_key_that_is_not_a_number_reaches_its_window_alone) {
  constexpr std::int64_t kLength = 600, kKey = 210, kWindow = 150, kWidth = 64;
  for (const double cap : {0.0, 20.0}) {
    Case c = with_window(DType::bf16, 1, kLength, kWidth, kWindow);
    c.soft_cap = cap;
    std::vector<Operand> operands = forward_operands(c);
    store_element(c.dtype, operands[1].storage.data() + kKey * kWidth * 2, NAN);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    const std::vector<Operand> all = backward_operands(operands, results, c);
    const HostTensor dq = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch()[0];
    for (std::int64_t row = 0; row < kLength; ++row) {
      const bool sees = row >= kKey && row < kKey + kWindow;
      const auto at = static_cast<std::size_t>(row * kWidth * 2);
      EXPECT_EQ(std::isnan(load_element(c.dtype, results[0].data.data() + at)), sees) << "o of query " << row;
      EXPECT_EQ(std::isnan(load_element(c.dtype, dq.data.data() + at)), sees) << "dq of query " << row;
    }
  }
}

// Of scores that the cap bends and of those that it hardly changes.
TEST_F(OnCardAttention, a_soft_cap_bounds_the_scores) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 80, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const double cap : {2.0, 50.0}) {
        expect_agrees(with_soft_cap({dtype, 2, 300, 300, width, true}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 399, 399, width, true}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 300, 411, width, false}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 500, 300, width, false}, cap));
      }
    }
  }
}

TEST_F(OnCardAttention, a_soft_cap_goes_with_a_window_and_shared_keys) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::int64_t window : {1, 90, 128, 400}) {
        Case c = with_soft_cap(with_window(dtype, 2, 500, width, window), 5);
        c.group = 2;
        expect_agrees(c);
      }
    }
  }
}

// Scores far beyond the cap: all weights of a row are alike, or nearly one or zero.
TEST_F(OnCardAttention, a_soft_cap_holds_of_large_scores) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    for (const double cap : {1.0, 50.0}) {
      const Case c = with_soft_cap({dtype, 1, 300, 300, 64, true}, cap);
      std::vector<Operand> operands = forward_operands(c);
      for (std::size_t i = 0; i < operands[0].storage.size(); i += size_bytes(dtype)) {
        std::byte* element = operands[0].storage.data() + i;
        store_element(dtype, element, 1000 * load_element(dtype, element));
      }
      expect_as_good_as_plain_ops(Op::attention, operands, c);
    }
  }
}

TEST_F(OnCardAttention, a_window_or_a_soft_cap_runs_the_kernels_of_the_card) {
  const bool is_hopper = cuda::CudaContext::of_card(0).card().capability.number() == 90;
  for (const double cap : {0.0, 30.0}) {
    Case c = with_window(DType::bf16, 1, 300, 128, 100);
    c.soft_cap = cap;
    const std::vector<Operand> operands = forward_operands(c);
    NodeRun forward(*device_, Op::attention, operands, c.attributes());
    const std::vector<Operand> all = backward_operands(operands, forward.launch(), c);
    NodeRun backward(*device_, Op::attention_backward, all, c.attributes());
    const std::string scores = cap > 0 ? "soft_cap" : "window";
    const std::string form = is_hopper ? "hopper_" + scores : "tiled";
    EXPECT_EQ(forward.kernel().name(), "attention_forward_" + form + "_bf16_128");
    EXPECT_EQ(backward.kernel().name(), "attention_backward_" + form + "_bf16_128");
  }
}

TEST_F(OnCardAttention, takes_unequal_lengths) {
  for (const std::int64_t keys : {1, 130, 1023}) {
    expect_agrees({DType::bf16, 2, 200, keys, 64, false});
    expect_agrees({DType::bf16, 2, 1, keys, 128, false});
    expect_agrees({DType::fp32, 2, 200, keys, 64, false});
    expect_agrees({DType::fp32, 2, 1, keys, 128, false});
  }
}

// Many more blocks of keys than run on the GPU at the same time; those that add to one gradient of q wait for one
// another.
TEST_F(OnCardAttention, sums_the_gradient_of_q_over_more_blocks_than_run_at_a_time) {
  expect_agrees({DType::bf16, 1, 256, 40000, 64, false});
  for (const std::int64_t width : {64, 128}) expect_agrees({DType::fp32, 1, 256, 20000, width, false});
}

// Hopper's forward has as many blocks as multiprocessors, which take tiles from a counter until none is left.
TEST_F(OnCardAttention, takes_more_blocks_of_queries_than_run_at_a_time) {
  expect_agrees({DType::bf16, 70, 300, 300, 64, true});
  expect_agrees({DType::bf16, 50, 270, 270, 128, false});
  expect_agrees({DType::fp16, 50, 270, 270, 256, true});
}

// Hopper's backward has warps that add and warps that let the next block add; neither may run ahead of the other.
TEST_F(OnCardAttention, takes_many_blocks_of_queries_for_one_block_of_keys) {
  for (const std::int64_t width : {64, 128}) {
    expect_agrees({DType::bf16, 1, 12000, 200, width, false});
    expect_agrees({DType::fp32, 1, 12000, 200, width, false});
  }
}

TEST_F(OnCardAttention, large_scores_neither_overflow_nor_vanish) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Case c{dtype, 1, 300, 300, 64, true};
    std::vector<Operand> operands = forward_operands(c);
    for (std::size_t i = 0; i < operands[0].storage.size(); i += size_bytes(dtype)) {
      std::byte* element = operands[0].storage.data() + i;
      store_element(dtype, element, 200 * load_element(dtype, element));
    }
    expect_as_good_as_plain_ops(Op::attention, operands, c);
  }
}

TEST_F(OnCardAttention, one_element_that_is_not_a_number_spoils_the_rows_that_see_it) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Case c{dtype, 1, 100, 100, 64, true};
    std::vector<Operand> operands = forward_operands(c);
    store_element(dtype, operands[1].storage.data() + 40 * 64 * size_bytes(dtype), NAN);
    const HostTensor o = NodeRun(*device_, Op::attention, operands, c.attributes()).launch()[0];
    for (std::size_t row = 0; row < 100; ++row) {
      EXPECT_EQ(std::isnan(load_element(dtype, o.data.data() + row * 64 * size_bytes(dtype))), row >= 40)
          << name(dtype) << " row " << row;
    }
  }
}

// As a graph: without a forward kernel for the scale, the op is decomposed.
TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_every_scale) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {-0.2, 0.0, 3.0}) {
      for (const bool causal : {false, true}) {
        const Case c{dtype, 2, 239, 239, 64, causal, scale};
        const std::vector<Operand> operands = forward_operands(c);
        const std::vector<HostTensor> results = in_program(Op::attention, operands, c.attributes());
        expect_as_good_as_plain_ops(results, Op::attention, operands, c);
        expect_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c);
      }
    }
  }
}

TEST_F(OnCardAttention, a_scale_that_is_not_finite_makes_nan) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      const Case c{dtype, 1, 70, 70, 64, true, scale};
      const HostTensor o = in_program(Op::attention, forward_operands(c), c.attributes())[0];
      const std::byte* last = o.data.data() + (70 * 64 - 1) * size_bytes(dtype);
      EXPECT_TRUE(std::isnan(load_element(dtype, last))) << c.text();
    }
  }
}

// The decomposition gives dq of every query NaN, because 0 times NaN is NaN.
TEST_F(OnCardAttention, a_hidden_key_that_is_nan_reaches_nothing) {
  constexpr std::size_t kRows = 300;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::size_t key : {std::size_t{40}, std::size_t{150}}) {
        const Case c{dtype, 2, kRows, kRows, width, true};
        std::vector<Operand> operands = forward_operands(c);
        const auto columns = static_cast<std::size_t>(width);
        store_element(dtype, operands[1].storage.data() + (key * columns + columns - 1) * size_bytes(dtype), NAN);
        const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
        const std::vector<Operand> all = backward_operands(operands, results, c);
        const HostTensor dq = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch()[0];
        for (const HostTensor* tensor : {&results[0], &dq}) {
          for (std::size_t row = 0; row < 2 * kRows; ++row) {
            const double x = load_element(dtype, tensor->data.data() + row * columns * size_bytes(dtype));
            EXPECT_EQ(std::isnan(x), row >= key && row < kRows)
                << c.text() << (tensor == &dq ? " dq" : " o") << " row " << row << " with key " << key;
          }
        }
      }
    }
  }
}

// fp32 operands with elements far from 1 or from one another; errors are relative to the largest element of a result.
class OnCardFp32Attention : public OnCardAttention {
 protected:
  static Case standard(bool causal) { return {DType::fp32, 1, 150, 150, 64, causal}; }

  // The elements `first`, `first + step`, ... of an operand: `count` of them, or all that remain.
  static void scale(Operand& operand, double factor, std::size_t first = 0, std::size_t count = SIZE_MAX,
                    std::size_t step = 1) {
    for (std::size_t i = first; i < operand.storage.size() / sizeof(float) && count > 0; i += step, --count) {
      std::byte* element = operand.storage.data() + i * sizeof(float);
      store_element(DType::fp32, element, factor * load_element(DType::fp32, element));
    }
  }
  static void set(Operand& operand, std::size_t row, double value) {
    store_element(DType::fp32, operand.storage.data() + row * 64 * sizeof(float), value);
  }
  static double at(const HostTensor& tensor, std::size_t row, std::size_t column = 0) {
    const DType dtype = tensor.type.dtype;
    return load_element(dtype, tensor.data.data() + (row * 64 + column) * size_bytes(dtype));
  }

  static std::size_t key_of_largest_score(const std::vector<Operand>& operands, std::size_t query) {
    const HostTensor q = testing::dense(operands[0], operands[0].type());
    const HostTensor k = testing::dense(operands[1], operands[1].type());
    std::size_t key = 0;
    double largest = -INFINITY;
    for (std::size_t row = 0; row < 150; ++row) {
      double score = 0;
      for (std::size_t column = 0; column < 64; ++column) score += at(q, query, column) * at(k, row, column);
      if (score > largest) key = row;
      largest = std::max(largest, score);
    }
    return key;
  }

  std::vector<HostTensor> run(Op op, const std::vector<Operand>& operands, const Case& c) {
    return NodeRun(*device_, op, operands, c.attributes()).launch();
  }
  // With this gradient of the output.
  std::vector<Operand> backward_operands(const Operand& d_o, const std::vector<Operand>& operands, const Case& c) {
    std::vector<Operand> all = OnCardAttention::backward_operands(operands, run(Op::attention, operands, c), c);
    all[0] = d_o;
    return all;
  }

  void expect_as_good_as_plain_ops_relatively(Op op, const std::vector<Operand>& operands, const Case& c,
                                              const std::string& what) {
    const std::vector<HostTensor> found = run(op, operands, c);
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, c.attributes());
    const std::vector<HostTensor> plain = in_plain_ops(op, operands, c.attributes());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double bound = 2 * largest_difference(plain[i], expected[i]) + 0x1p-18 * largest_of(expected[i]);
      EXPECT_LE(largest_difference(found[i], expected[i]), bound)
          << name(op) << " output " << i << " of " << what << (c.causal ? ", causal" : "");
    }
  }
  void expect_agrees_relatively(const std::vector<Operand>& operands, const Operand& d_o, const Case& c,
                                const std::string& what) {
    expect_as_good_as_plain_ops_relatively(Op::attention, operands, c, what);
    expect_as_good_as_plain_ops_relatively(Op::attention_backward, backward_operands(d_o, operands, c), c, what);
  }
};

TEST_F(OnCardFp32Attention, operands_may_be_tiny_or_huge) {
  const double factors[][4] = {{1e-30, 1e-30, 1e-30, 1e-30}, {1e-30, 1e30, 1, 1}, {1e32, 1e-32, 1, 1},
                               {1, 1, 1e15, 1e15},           {1, 1, 1e35, 1e-20}, {1, 1, 1, 1e-32}};
  for (const bool causal : {false, true}) {
    for (const auto& of : factors) {
      const Case c = standard(causal);
      std::vector<Operand> operands = forward_operands(c);
      Operand d_o = random(c.dtype, c.of_queries());
      for (std::size_t i = 0; i < 3; ++i) scale(operands[i], of[i]);
      scale(d_o, of[3]);
      expect_agrees_relatively(operands, d_o, c,
                               fmt::format("q {:g}, k {:g}, v {:g}, do {:g}", of[0], of[1], of[2], of[3]));
    }
  }
}

// Each query has weight 1 for one key. If backward's scores differed from forward's in the last bit, it would compute
// other weights than 0 and 1.
TEST_F(OnCardFp32Attention, scores_of_1e30_leave_weights_0_and_1) {
  const Case c = standard(false);
  std::vector<Operand> operands = forward_operands(c);
  scale(operands[0], 1e15);
  scale(operands[1], 1e15);
  const HostTensor o = run(Op::attention, operands, c)[0];
  const Operand d_o = random(c.dtype, c.of_queries());
  const HostTensor dv = run(Op::attention_backward, backward_operands(d_o, operands, c), c)[2];
  HostTensor expected({DType::fp64, c.of_keys()});
  for (std::size_t row = 0; row < 150; ++row) {
    const std::size_t key = key_of_largest_score(operands, row);
    for (std::size_t column = 0; column < 64; ++column) {
      const auto element = static_cast<std::int64_t>(key * 64 + column);
      EXPECT_NEAR(at(o, row, column), operands[2].at(testing::unravel(c.of_keys(), element)), 1e-5);
      const double gradient = d_o.at(testing::unravel(c.of_queries(), static_cast<std::int64_t>(row * 64 + column)));
      store_element(DType::fp64, expected.data.data() + static_cast<std::size_t>(element) * sizeof(double),
                    at(expected, key, column) + gradient);
    }
  }
  EXPECT_LE(largest_difference(dv, expected), 0x1p-18 * largest_of(expected));
}

TEST_F(OnCardFp32Attention, tiles_may_be_zero) {
  for (const bool causal : {false, true}) {
    const Case c = standard(causal);
    std::vector<Operand> operands = forward_operands(c);
    Operand d_o = random(c.dtype, c.of_queries());
    scale(operands[0], 0, std::size_t{32} * 64, std::size_t{32} * 64);
    scale(operands[1], 0, std::size_t{64} * 64, std::size_t{32} * 64);
    scale(operands[2], 0, std::size_t{96} * 64, std::size_t{32} * 64);
    scale(d_o, 0, 0, std::size_t{32} * 64);
    expect_agrees_relatively(operands, d_o, c, "tiles of zeros");
    for (Operand& operand : operands) scale(operand, 0);
    expect_agrees_relatively(operands, d_o, c, "nothing but zeros");
  }
}

TEST_F(OnCardFp32Attention, one_key_may_be_two_to_the_20_times_the_others) {
  for (const bool causal : {false, true}) {
    const Case c = standard(causal);
    std::vector<Operand> operands = forward_operands(c);
    scale(operands[1], 0x1p20, std::size_t{70} * 64, 64);
    expect_as_good_as_plain_ops_relatively(Op::attention, operands, c, "a large key");
    scale(operands[0], 0x1p-20);
    expect_agrees_relatively(operands, random(c.dtype, c.of_queries()), c, "a large key and small queries");
  }
}

TEST_F(OnCardFp32Attention, a_column_of_values_is_kept_to_two_to_the_minus_50_of_the_largest) {
  for (const bool causal : {false, true}) {
    for (const int exponent : {-20, -30}) {
      const Case c = standard(causal);
      std::vector<Operand> operands = forward_operands(c);
      scale(operands[2], std::ldexp(1, exponent), 5, SIZE_MAX, 64);
      const HostTensor found = run(Op::attention, operands, c)[0];
      const HostTensor expected = testing::reference_outputs(Op::attention, operands, c.attributes())[0];
      double error = 0, largest = 0;
      for (std::size_t row = 0; row < 150; ++row) {
        error = std::max(error, std::abs(at(found, row, 5) - at(expected, row, 5)));
        largest = std::max(largest, std::abs(at(expected, row, 5)));
      }
      const double largest_value = largest_of(testing::dense(operands[2], operands[2].type()));
      EXPECT_LE(error, 0x1p-20 * largest + 0x1p-50 * largest_value) << exponent;
    }
  }
}

TEST_F(OnCardFp32Attention, a_small_gradient_of_one_query_keeps_its_bits) {
  const Case c = standard(false);
  const std::vector<Operand> operands = forward_operands(c);
  Operand d_o = random(c.dtype, c.of_queries());
  scale(d_o, 0x1p-10, std::size_t{70} * 64, 64);
  const std::vector<Operand> all = backward_operands(d_o, operands, c);
  const HostTensor dq = run(Op::attention_backward, all, c)[0];
  const HostTensor expected = testing::reference_outputs(Op::attention_backward, all, c.attributes())[0];
  double error = 0, largest = 0;
  for (std::size_t column = 0; column < 64; ++column) {
    error = std::max(error, std::abs(at(dq, 70, column) - at(expected, 70, column)));
    largest = std::max(largest, std::abs(at(expected, 70, column)));
  }
  EXPECT_LE(error, 0x1p-18 * largest);
}

TEST_F(OnCardFp32Attention, is_not_finite_where_plain_ops_are_not_and_right_elsewhere) {
  const Case c = standard(false);
  for (const double what : {double{INFINITY}, double{-INFINITY}, double{NAN}}) {
    for (std::size_t which = 0; which < 4; ++which) {
      std::vector<Operand> operands = forward_operands(c);
      Operand d_o = random(c.dtype, c.of_queries());
      set(which < 3 ? operands[which] : d_o, 40, what);
      const std::vector<Operand> all = backward_operands(d_o, operands, c);
      for (const Op op : {Op::attention, Op::attention_backward}) {
        const std::vector<Operand>& given = op == Op::attention ? operands : all;
        const std::vector<HostTensor> found = run(op, given, c);
        const std::vector<HostTensor> plain = in_plain_ops(op, given, c.attributes());
        for (std::size_t i = 0; i < found.size(); ++i) {
          for (std::size_t element = 0; element < static_cast<std::size_t>(found[i].type.elements()); ++element) {
            const double ours = at(found[i], 0, element);
            const double theirs = at(plain[i], 0, element);
            ASSERT_TRUE(std::isfinite(theirs) || !std::isfinite(ours))
                << name(op) << " output " << i << " element " << element << ", " << what << " in operand " << which;
            if (std::isfinite(ours)) {
              ASSERT_NEAR(ours, theirs, 1e-4);
            }
          }
        }
      }
    }
  }
}

TEST_F(OnCardFp32Attention, what_a_query_does_not_see_leaves_it_as_it_was) {
  const Case c = standard(true);
  const std::vector<Operand> clean = forward_operands(c);
  const HostTensor expected = run(Op::attention, clean, c)[0];
  for (const double what : {double{INFINITY}, double{NAN}}) {
    std::vector<Operand> operands = clean;
    set(operands[1], 40, what);
    const HostTensor found = run(Op::attention, operands, c)[0];
    for (std::size_t row = 0; row < 150; ++row) {
      for (std::size_t column = 0; column < 64; ++column) {
        if (row < 40) {
          ASSERT_NEAR(at(found, row, column), at(expected, row, column), 1e-5) << row;
        } else {
          ASSERT_TRUE(std::isnan(at(found, row, column))) << row;
        }
      }
    }
  }
}

// The entry of the kernel that such a GPU runs; empty if there is none.
std::string kernel_of(DType dtype, std::int64_t width, const cuda::CardFacts& card, Op op = Op::attention,
                      std::int64_t length = 512, const AttentionForm& form = {}, bool tf32 = false) {
  Graph graph;
  const TensorType type{dtype, Shape{2, length, width}};
  std::vector<Value> values;
  for (const char* name : {"q", "k", "v"}) values.push_back(input(graph, name, type, Role::data));
  Attributes attributes = attributes_of(form);
  if (tf32) attributes.set("compute", std::string("tf32"));
  if (op == Op::attention_backward) {
    values.insert(values.begin(), values[0]);
    values.push_back(values[0]);
    const DType wide = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    values.push_back(input(graph, "lse", {wide, Shape{2, length}}, Role::data));
  }
  const auto* variant = cuda::find_variant(card, graph, graph.node(make_node(graph, op, values, attributes)));
  return variant == nullptr ? "" : variant->entry;
}
bool has_kernel(DType dtype, std::int64_t width, const cuda::CardFacts& card, Op op = Op::attention) {
  return !kernel_of(dtype, width, card, op).empty();
}

cuda::CardFacts ampere() {
  cuda::CardFacts card = hopper();
  card.capability = {8, 0};
  card.shared_bytes_per_block = std::size_t{163} * 1024;
  return card;
}

TEST(CudaAttention, runs_the_narrowest_kernel_that_holds_the_head) {
  cuda::CardFacts blackwell = hopper();
  blackwell.capability = {10, 0};
  for (const cuda::CardFacts& card : {ampere(), hopper(), blackwell}) {
    const bool is_hopper = card.capability.major == 9;
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const auto& [width, holds] :
           {std::pair{8, 64}, {64, 64}, {72, 96}, {96, 96}, {104, 128}, {128, 128}, {136, 256}, {256, 256}}) {
        const std::string kind = is_hopper ? "hopper" : "tiled";
        EXPECT_EQ(kernel_of(dtype, width, card, Op::attention, 2000),
                  fmt::format("attention_forward_{}_{}_{}", kind, name(dtype), holds));
        EXPECT_EQ(kernel_of(dtype, width, card, Op::attention_backward),
                  holds == 256 && card.capability.major == 8
                      ? ""  // needs 209 KiB of shared memory
                      : fmt::format("attention_backward_{}_{}_{}", kind, name(dtype), holds));
      }
    }
    const char* form = is_hopper ? "hopper_fp32" : "split";
    for (const auto& [width, holds] : {std::pair{4, 64}, {64, 64}, {68, 128}, {128, 128}, {132, 256}, {256, 256}}) {
      const bool has = is_hopper || width <= 128;
      EXPECT_EQ(kernel_of(DType::fp32, width, card), has ? fmt::format("attention_forward_{}_{}", form, holds) : "");
    }
    EXPECT_EQ(kernel_of(DType::fp32, 64, card, Op::attention_backward), fmt::format("attention_backward_{}_64", form));
  }
  EXPECT_EQ(kernel_of(DType::fp32, 128, hopper(), Op::attention_backward), "attention_backward_hopper_fp32_128");
}

// Backward computes the scores of forward again, with the same bits, so both run the kernels of one kind.
TEST(CudaAttention, of_fp32_runs_kernels_of_one_kind_forward_and_backward) {
  const AttentionForm window{.causal = true, .window = 100};
  const AttentionForm cap{.causal = true, .soft_cap = 20};
  const auto kinds_of = [](std::int64_t width, std::int64_t length, const AttentionForm& form, bool tf32) {
    const std::string forward = kernel_of(DType::fp32, width, hopper(), Op::attention, length, form, tf32);
    const std::string backward = kernel_of(DType::fp32, width, hopper(), Op::attention_backward, length, form, tf32);
    const std::string prefixes[] = {"attention_forward_", "attention_backward_"};
    return std::pair(forward.substr(prefixes[0].size()), backward.substr(prefixes[1].size()));
  };
  for (const int width : {64, 128}) {
    const std::string portable = fmt::format("split_{}", width);
    for (const bool tf32 : {false, true}) {
      const std::string own = fmt::format("hopper_{}_{}", tf32 ? "tf32" : "fp32", width);
      EXPECT_EQ(kinds_of(width, 64, {}, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 65, {}, tf32), std::pair(own, own));
      EXPECT_EQ(kinds_of(width, 512, window, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 512, cap, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 512, {.causal = true, .window = 512}, tf32), std::pair(own, own));
    }
  }
}

TEST(CudaAttention, of_fp32_takes_wide_heads_on_hopper_without_a_window_or_a_soft_cap) {
  for (const std::int64_t length : {1, 512}) {
    EXPECT_EQ(kernel_of(DType::fp32, 200, hopper(), Op::attention, length), "attention_forward_hopper_fp32_256");
    EXPECT_EQ(kernel_of(DType::fp32, 200, hopper(), Op::attention_backward, length),
              "attention_backward_hopper_fp32_256");
  }
  EXPECT_EQ(kernel_of(DType::fp32, 200, hopper(), Op::attention, 512, {.causal = true, .window = 100}), "");
  EXPECT_EQ(kernel_of(DType::fp32, 200, hopper(), Op::attention, 512, {.causal = true, .soft_cap = 20}), "");
}

TEST(CudaAttention, of_tf32_runs_the_kernels_of_fp32_on_other_cards) {
  EXPECT_EQ(kernel_of(DType::fp32, 64, ampere(), Op::attention, 512, {}, true), "attention_forward_split_64");
}

TEST(CudaAttention, of_few_keys_runs_the_portable_forward_on_hopper) {
  EXPECT_EQ(kernel_of(DType::bf16, 128, hopper(), Op::attention, 256), "attention_forward_tiled_bf16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 128, hopper(), Op::attention, 257), "attention_forward_hopper_bf16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 64, hopper(), Op::attention_backward, 16), "attention_backward_hopper_bf16_64");
}

TEST(CudaAttention, of_short_sequences_has_kernels_of_its_own_on_hopper) {
  const AttentionForm causal{.causal = true};
  for (const std::int64_t length : {16, 256, 1024}) {
    for (const AttentionForm& form : {AttentionForm{}, causal}) {
      EXPECT_EQ(kernel_of(DType::fp16, 64, hopper(), Op::attention, length, form),
                "attention_forward_hopper_short_fp16_64");
    }
  }
  EXPECT_EQ(kernel_of(DType::fp16, 64, hopper(), Op::attention, 1025, causal), "attention_forward_hopper_fp16_64");
  for (const auto& [width, longest] : {std::pair{64, 1024}, {80, 2048}, {128, 2048}}) {
    const int holds = width == 80 ? 96 : width;
    const std::string name = fmt::format("bf16_{}", holds);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper(), Op::attention_backward, longest, causal),
              "attention_backward_hopper_short_" + name);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper(), Op::attention_backward, longest + 1, causal),
              "attention_backward_hopper_" + name);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper(), Op::attention_backward, longest),
              "attention_backward_hopper_" + name);
  }
}

TEST(CudaAttention, of_few_heads_is_divided_among_the_multiprocessors_of_hopper) {
  cuda::CardFacts card = hopper();
  card.multiprocessors = 132;
  const AttentionForm causal{.causal = true};
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 1024), "attention_forward_hopper_few_bf16_64");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 8192, causal), "attention_forward_hopper_divided_bf16_64");
  EXPECT_EQ(kernel_of(DType::fp16, 128, card, Op::attention, 2048, causal),
            "attention_forward_hopper_divided_fp16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention_backward, 1024),
            "attention_backward_hopper_divided_bf16_64");
  EXPECT_EQ(kernel_of(DType::fp16, 80, card, Op::attention_backward, 8192, causal),
            "attention_backward_hopper_divided_fp16_96");
  card.multiprocessors = 4;
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 8192, causal), "attention_forward_hopper_bf16_64");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention_backward, 8192, causal),
            "attention_backward_hopper_bf16_64");
}

TEST(CudaAttention, with_a_window_or_a_soft_cap_has_kernels_of_its_own_on_hopper) {
  const AttentionForm window{.causal = true, .window = 128};
  const AttentionForm cap{.causal = true, .soft_cap = 50};
  const AttentionForm both{.causal = true, .window = 128, .soft_cap = 50};
  for (const auto& [form, scores] : {std::pair{window, "window"}, {cap, "soft_cap"}, {both, "soft_cap"}}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const int width : {64, 96, 128, 256}) {
        EXPECT_EQ(kernel_of(dtype, width, hopper(), Op::attention, 512, form),
                  fmt::format("attention_forward_hopper_{}_{}_{}", scores, name(dtype), width));
        const std::string own = fmt::format("attention_backward_hopper_{}_{}_{}", scores, name(dtype), width);
        EXPECT_EQ(kernel_of(dtype, width, hopper(), Op::attention_backward, 512, form), own);
        EXPECT_EQ(kernel_of(dtype, width, ampere(), Op::attention, 512, form),
                  fmt::format("attention_forward_tiled_{}_{}", name(dtype), width));
      }
    }
    EXPECT_EQ(kernel_of(DType::bf16, 64, hopper(), Op::attention, 256, form), "attention_forward_tiled_bf16_64");
    EXPECT_EQ(kernel_of(DType::fp32, 64, hopper(), Op::attention, 512, form), "attention_forward_split_64");
  }
}

TEST(CudaAttention, with_a_window_that_hides_no_key_runs_the_kernels_without) {
  for (const std::int64_t window : {512, 4096}) {
    const AttentionForm form{.causal = true, .window = window};
    EXPECT_EQ(kernel_of(DType::bf16, 128, hopper(), Op::attention, 512, form), "attention_forward_hopper_bf16_128");
    EXPECT_EQ(kernel_of(DType::bf16, 64, hopper(), Op::attention_backward, 512, form),
              "attention_backward_hopper_short_bf16_64");
  }
}

TEST(CudaAttention, has_kernels_for_heads_of_whole_vectors_up_to_their_widest) {
  for (const Op op : {Op::attention, Op::attention_backward}) {
    for (const std::int64_t width : {8, 16, 32, 80, 128, 256}) {
      EXPECT_TRUE(has_kernel(DType::bf16, width, hopper(), op)) << width;
      EXPECT_TRUE(has_kernel(DType::fp16, width, hopper(), op)) << width;
    }
    for (const std::int64_t width : {4, 12, 100, 257, 264, 800}) {
      EXPECT_FALSE(has_kernel(DType::bf16, width, hopper(), op)) << width;
    }
    for (const std::int64_t width : {4, 16, 80, 128, 132, 256})
      EXPECT_TRUE(has_kernel(DType::fp32, width, hopper(), op)) << width;
    for (const std::int64_t width : {7, 130, 260, 800}) {
      EXPECT_FALSE(has_kernel(DType::fp32, width, hopper(), op)) << width;
    }
    EXPECT_FALSE(has_kernel(DType::fp64, 64, hopper(), op));
  }
}

TEST(CudaAttention, has_no_kernel_that_needs_more_shared_memory_than_a_card_gives_a_block) {
  cuda::CardFacts card = hopper();
  card.shared_bytes_per_block = 99 * 1024;  // compute capability 8.6 and 8.9
  EXPECT_TRUE(has_kernel(DType::bf16, 64, card, Op::attention_backward));
  EXPECT_TRUE(has_kernel(DType::bf16, 128, card, Op::attention));
  EXPECT_FALSE(has_kernel(DType::bf16, 128, card, Op::attention_backward));
  card.shared_bytes_per_block = 163 * 1024;  // compute capability 8.0
  EXPECT_TRUE(has_kernel(DType::fp32, 128, card, Op::attention));
  EXPECT_TRUE(has_kernel(DType::fp32, 64, card, Op::attention_backward));
  EXPECT_FALSE(has_kernel(DType::fp32, 128, card, Op::attention_backward));
}

}  // namespace
}  // namespace ridgepoint
