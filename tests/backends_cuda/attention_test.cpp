// Tiled attention on the card against the reference back end in double precision, at awkward lengths and head sizes,
// by the reference projects' rule: no further off than twice what plain ops of the same precision are.
#include "backends/cuda/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends_cuda/card.h"
#include "backends_cuda/node_run.h"

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

  Shape of_queries() const { return {batch, queries, width}; }
  Shape of_keys() const { return {batch, keys, width}; }
  Attributes attributes() const { return {{"causal", causal}, {"scale", 1.0 / std::sqrt(static_cast<double>(width))}}; }
  std::string text() const {
    return std::string(name(dtype)) + ' ' + of_queries().to_string() + " x " + of_keys().to_string() +
           (causal ? " causal" : "");
  }
};

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

class OnCardAttention : public testing::OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape) { return testing::random_operand(dtype, shape, random_, {}); }
  std::vector<Operand> forward_operands(const Case& c) {
    return {random(c.dtype, c.of_queries()), random(c.dtype, c.of_keys()), random(c.dtype, c.of_keys())};
  }

  // What the card computes where the op falls apart into plain ones of the same precision.
  std::vector<HostTensor> in_plain_ops(Op op, const std::vector<Operand>& operands, Attributes attributes) {
    attributes.set(kPlainAttribute, true);
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

  void expect_as_good_as_plain_ops(Op op, const std::vector<Operand>& operands, const Case& c) {
    NodeRun run(*device_, op, operands, c.attributes());
    const std::vector<HostTensor> found = run.launch();
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, c.attributes());
    const std::vector<HostTensor> plain = in_plain_ops(op, operands, c.attributes());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // Half a unit in the last place of a result about 1; of fp32 more, as gradients may be what is left of larger
      // sums.
      const double unit = found[i].type.dtype == DType::bf16   ? 0x1p-9
                          : found[i].type.dtype == DType::fp16 ? 0x1p-12
                                                               : 0x1p-20;
      const double bound = 2 * largest_difference(plain[i], expected[i]) + 2 * unit * (0.3 + largest_of(expected[i]));
      EXPECT_LE(largest_difference(found[i], expected[i]), bound)
          << run.kernel().name() << " output " << i << " of " << c.text();
    }
    const std::vector<HostTensor> again = run.launch();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].data, again[i].data) << run.kernel().name() << " differs from run to run";
    }
  }

  void expect_agrees(const Case& c) {
    const std::vector<Operand> operands = forward_operands(c);
    expect_as_good_as_plain_ops(Op::attention, operands, c);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    std::vector<Operand> all = {random(c.dtype, c.of_queries()), operands[0], operands[1], operands[2]};
    for (const HostTensor& result : results) all.push_back({dense_layout(result.type), result.data});
    expect_as_good_as_plain_ops(Op::attention_backward, all, c);
  }

  std::mt19937 random_{29};
};

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_odd_lengths) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t length : {1, 3, 64, 113, 239, 799}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t width : {64, 128}) expect_agrees({dtype, 2, length, length, width, causal});
      }
    }
  }
}

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_every_head_size) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {8, 16, 32, 72, 80, 96, 136, 200, 256}) {
      expect_agrees({dtype, 3, 150, 150, width, true});
      expect_agrees({dtype, 1, 70, 150, width, false});
    }
  }
  for (const std::int64_t width : {4, 16, 32, 80, 84, 128}) {
    expect_agrees({DType::fp32, 3, 150, 150, width, true});
    expect_agrees({DType::fp32, 1, 70, 150, width, false});
  }
}

TEST_F(OnCardAttention, fp32_is_as_exact_as_fp32_sums) {
  for (const bool causal : {false, true}) {
    const Case c{DType::fp32, 2, 1023, 1023, 64, causal};
    const std::vector<Operand> operands = forward_operands(c);
    const std::vector<HostTensor> found = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    const std::vector<HostTensor> expected = testing::reference_outputs(Op::attention, operands, c.attributes());
    EXPECT_LT(testing::relative_error(found[0], expected[0]), 1e-6);
    EXPECT_LT(testing::relative_error(found[1], expected[1]), 1e-6);
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

// Many more blocks of keys than the card runs at a time: those that add to one gradient of q wait for one another.
TEST_F(OnCardAttention, sums_the_gradient_of_q_over_more_blocks_than_run_at_a_time) {
  expect_agrees({DType::bf16, 1, 256, 40000, 64, false});
  expect_agrees({DType::fp32, 1, 256, 20000, 64, false});
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

cuda::CardFacts hopper() {
  cuda::CardFacts card;
  card.capability = {9, 0};
  card.shared_bytes_per_block = 227 * 1024;
  return card;
}

bool has_kernel(DType dtype, std::int64_t width, const cuda::CardFacts& card, Op op = Op::attention) {
  Graph graph;
  const TensorType type{dtype, Shape{2, 16, width}};
  std::vector<Value> values;
  for (const char* name : {"q", "k", "v"}) values.push_back(input(graph, name, type, Role::data));
  const Attributes attributes{{"causal", false}, {"scale", 1.0}};
  if (op == Op::attention_backward) {
    values.insert(values.begin(), values[0]);
    values.push_back(values[0]);
    const DType wide = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    values.push_back(input(graph, "lse", {wide, Shape{2, 16}}, Role::data));
  }
  return cuda::has_attention(card, graph, graph.node(make_node(graph, op, values, attributes)));
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
    for (const std::int64_t width : {4, 16, 80, 128})
      EXPECT_TRUE(has_kernel(DType::fp32, width, hopper(), op)) << width;
    for (const std::int64_t width : {7, 132, 256, 800}) {
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
}

}  // namespace
}  // namespace ridgepoint
