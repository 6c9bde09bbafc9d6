// Attention and rotations that read operands as they lie and write results as they shall lie: the heads of one packed
// product [B,S,3H,D], seen as [B,H,S,D].
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>

#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/kernels/rope/parameters.h"
#include "backends/cuda/node_run.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using cuda::AttentionBackward;
using cuda::AttentionForward;
using cuda::AttentionMap;
using cuda::HopperAttentionForward;
using cuda::HopperSplitBackward;
using cuda::HopperSplitForward;
using cuda::RopeRows;
using testing::LayoutChoice;
using testing::NodeRun;
using testing::Operand;

// [B,H,S,D] stored as [B,S,H,D].
const LayoutChoice kHeadsInRows{.storage_order = {0, 2, 1, 3}};

Attributes scores(std::int64_t width, bool causal) {
  return {{"causal", causal}, {"scale", 1.0 / std::sqrt(static_cast<double>(width))}};
}

// Operands of zeros, [B,H,S,D], as the parts of one product [B,S,3H,D].
std::vector<Operand> packed_operands(DType dtype, const Shape& shape) {
  std::vector<Operand> operands(3);
  for (std::size_t i = 0; i < 3; ++i) {
    Operand& operand = operands[i];
    operand.layout = dense_layout({dtype, shape});
    const std::int64_t row = 3 * shape[1] * shape[3];
    operand.layout.strides = {shape[2] * row, shape[3], row, 1};
    operand.offset = static_cast<std::int64_t>(i) * shape[1] * shape[3];
    operand.storage.resize(static_cast<std::size_t>(shape[0] * shape[2] * row) * size_bytes(dtype));
  }
  return operands;
}

template <class Rows>
void expect_strides(const Rows& rows, std::int64_t outer, std::int64_t inner, std::int32_t row) {
  EXPECT_EQ(rows.outer, outer);
  EXPECT_EQ(rows.inner, inner);
  EXPECT_EQ(rows.row, row);
}

struct StridedAttention : testing::OnFakeCard {
  void use_portable_kernels() { set("FAKE_CARD_CAPABILITY", "80"); }
  // The parameters of the launches of one run, the first argument of each kernel as `Parameters`.
  template <class Parameters>
  static std::vector<Parameters> parameters_of(NodeRun& run) {
    static std::vector<Parameters> found;
    found.clear();
    watch_card([](const FakeWork& work) {
      if (work.parameters != nullptr) found.push_back(*static_cast<const Parameters*>(work.parameters[0]));
    });
    run.launch();
    watch_card(nullptr);
    return found;
  }
};

TEST_F(StridedAttention, tells_the_kernel_where_rows_lie) {
  use_portable_kernels();
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Shape shape{2, 3, 5, 64};
    NodeRun run(*device, Op::attention, packed_operands(DType::bf16, shape), scores(64, true), false, {kHeadsInRows});
    const std::vector<AttentionForward> launches = parameters_of<AttentionForward>(run);
    ASSERT_EQ(launches.size(), 1U);
    for (const auto& operand : {launches[0].q, launches[0].k, launches[0].v})
      expect_strides(operand, 5 * 9 * 64, 64, 9 * 64);
    expect_strides(launches[0].o, 5 * 3 * 64, 64, 3 * 64);
    EXPECT_EQ(launches[0].inner_count.value, 3U);
  });
}

TEST_F(StridedAttention, tells_every_kernel_of_the_backward_where_rows_lie) {
  use_portable_kernels();
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Shape shape{2, 3, 5, 64};
    for (const DType dtype : {DType::fp16, DType::fp32}) {
      std::vector<Operand> operands = packed_operands(dtype, shape);
      operands.insert(operands.begin(), testing::make_operand(dtype, shape, kHeadsInRows));
      operands.push_back(testing::make_operand(dtype, shape));
      operands.push_back(testing::make_operand(DType::fp32, {2, 3, 5}));
      NodeRun run(*device, Op::attention_backward, operands, scores(64, false), false,
                  {kHeadsInRows, {}, kHeadsInRows});
      const std::vector<AttentionBackward> launches = parameters_of<AttentionBackward>(run);
      ASSERT_EQ(launches.size(), dtype == DType::fp32 ? 2U : 3U);
      for (const AttentionBackward& launch : launches) {
        for (const auto& operand : {launch.q, launch.k, launch.v}) expect_strides(operand, 5 * 9 * 64, 64, 9 * 64);
        expect_strides(launch.d_o, 5 * 3 * 64, 64, 3 * 64);
        expect_strides(launch.o, 3 * 5 * 64, 5 * 64, 64);
        expect_strides(launch.dq, 5 * 3 * 64, 64, 3 * 64);
        expect_strides(launch.dk, 3 * 5 * 64, 5 * 64, 64);
        expect_strides(launch.dv, 5 * 3 * 64, 64, 3 * 64);
        EXPECT_EQ(launch.inner_count.value, 3U);
      }
    }
  });
}

// [S,D] and [B,S,D] have no heads; of five dimensions, the first two count batches.
TEST_F(StridedAttention, counts_matrices_by_the_dimension_before_the_rows) {
  use_portable_kernels();
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    for (const auto& [shape, inner] :
         {std::pair(Shape{5, 64}, 1U), {Shape{4, 5, 64}, 4U}, {Shape{2, 3, 4, 5, 64}, 4U}}) {
      const Operand x = testing::make_operand(DType::bf16, shape);
      NodeRun run(*device, Op::attention, {x, x, x}, scores(64, true));
      const AttentionForward launch = parameters_of<AttentionForward>(run).at(0);
      EXPECT_EQ(launch.inner_count.value, inner) << shape.to_string();
      expect_strides(launch.q, shape.rank() == 5 ? 4 * 5 * 64 : 0, shape.rank() > 2 ? 5 * 64 : 0, 64);
    }
  });
}

// Sizes in elements and strides in bytes, the fastest dimension first: of a row, rows, heads, and batch.
void expect_map(const AttentionMap& map, const std::vector<std::uint64_t>& sizes,
                const std::vector<std::uint64_t>& strides) {
  EXPECT_EQ(std::vector(map.map.words + 1, map.map.words + 5), sizes);
  EXPECT_EQ(std::vector(map.map.words + 5, map.map.words + 8), strides);
}

TEST_F(StridedAttention, tells_the_copy_engine_of_hopper_where_rows_lie) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    NodeRun run(*device, Op::attention, packed_operands(DType::bf16, {2, 3, 300, 80}), scores(80, true), false,
                {kHeadsInRows});
    EXPECT_EQ(run.kernel().name(), "attention_forward_hopper_bf16_96");
    const HopperAttentionForward launch = parameters_of<HopperAttentionForward>(run).at(0);
    const std::int64_t row = 9 * 80 * 2;
    for (const AttentionMap& map : {launch.q, launch.k, launch.v}) {
      expect_map(map, {80, 300, 3, 2}, {row, 80 * 2, 300 * row});
      EXPECT_EQ(map.inner, 1);
      EXPECT_EQ(map.outer, 1);
    }
    expect_strides(launch.o, 300 * 3 * 80, 80, 3 * 80);
  });
}

// The tiles of the last heads, as many as the fake card has multiprocessors (132), are taken longest first.
TEST_F(StridedAttention, orders_the_tiles_of_the_last_heads_on_hopper) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    for (const bool causal : {false, true}) {
      NodeRun run(*device, Op::attention, packed_operands(DType::bf16, {2, 100, 300, 64}), scores(64, causal), false,
                  {kHeadsInRows});
      EXPECT_EQ(run.kernel().name(), "attention_forward_hopper_streams_bf16_64");
      const HopperAttentionForward launch = parameters_of<HopperAttentionForward>(run).at(0);
      EXPECT_EQ(launch.tiles, 200 * 3);
      EXPECT_EQ(launch.sorted.value, causal ? 132U : 1U);
      EXPECT_EQ(launch.first_sorted, causal ? 200 - 132 : 199);
    }
  });
}

// Kernels of fp32 read operands once, to split them; k and v of shared heads once for all of them.
TEST_F(StridedAttention, tells_the_kernels_of_fp32_for_hopper_where_rows_lie) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Shape shape{2, 4, 300, 64};
    std::vector<Operand> operands = packed_operands(DType::fp32, shape);
    for (const std::size_t i : {1, 2}) operands[i] = testing::make_operand(DType::fp32, {2, 2, 300, 64}, kHeadsInRows);
    NodeRun run(*device, Op::attention, operands, scores(64, true), false, {kHeadsInRows});
    EXPECT_EQ(run.kernel().name(), "attention_forward_hopper_fp32_64");
    // Tiles of 128 rows, of four bytes an element: 3 for each of 8 matrices of queries and of 4 of keys and of
    // values; a scale for each query, and one for each tile of keys.
    EXPECT_EQ(run.kernel().workspace_bytes(), (24 + 2 * 12) * std::size_t{128} * 64 * 4 + (24 * 128 + 2 * 12) * 4);
    const auto launches = parameters_of<HopperSplitForward>(run);
    ASSERT_EQ(launches.size(), 2U);
    for (const HopperSplitForward& launch : launches) {
      expect_strides(launch.rest.q, 300 * 12 * 64, 64, 12 * 64);
      for (const auto& operand : {launch.rest.k, launch.rest.v}) {
        expect_strides(operand, 300 * 2 * 64, 64, 2 * 64);
        EXPECT_EQ(operand.group.value, 2U);
      }
      expect_strides(launch.rest.o, 300 * 4 * 64, 64, 4 * 64);
      EXPECT_EQ(launch.batch, 8);
      EXPECT_EQ(launch.key_batch, 4);
    }
  });
}

TEST_F(StridedAttention, tells_the_kernels_of_the_fp32_backward_for_hopper_where_rows_lie) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Shape shape{2, 3, 300, 128};
    std::vector<Operand> operands = packed_operands(DType::fp32, shape);
    operands.insert(operands.begin(), testing::make_operand(DType::fp32, shape, kHeadsInRows));
    operands.push_back(testing::make_operand(DType::fp32, shape));
    operands.push_back(testing::make_operand(DType::fp32, {2, 3, 300}));
    NodeRun run(*device, Op::attention_backward, operands, scores(128, false), false, {kHeadsInRows, {}, kHeadsInRows});
    EXPECT_EQ(run.kernel().name(), "attention_backward_hopper_fp32_128");
    // Of six matrices: q and do as 5 tiles of 64 rows, k and v as 3 of 128; sums of dq, as wide as tiles; a scale for
    // each tile; sum(do o); a semaphore for each tile of q, and the number of started blocks.
    const std::size_t tiles = 6 * (2 * 5 * 64 + 2 * 3 * 128) * std::size_t{128} * 4;
    const std::size_t sums = std::size_t{6} * 5 * 64 * 128 * 4;
    EXPECT_EQ(run.kernel().workspace_bytes(), tiles + sums + 6 * (2 * 5 + 2 * 3) * 4 + 6 * 300 * 4 + 6 * 5 * 4 + 4);
    const auto launches = parameters_of<HopperSplitBackward>(run);
    ASSERT_EQ(launches.size(), 3U);  // the last one has only `rest`
    for (std::size_t i = 0; i < 2; ++i) {
      const AttentionBackward& launch = launches[i].rest;
      for (const auto& operand : {launch.q, launch.k, launch.v}) expect_strides(operand, 300 * 9 * 128, 128, 9 * 128);
      expect_strides(launch.d_o, 300 * 3 * 128, 128, 3 * 128);
      expect_strides(launch.o, 3 * 300 * 128, 300 * 128, 128);
      expect_strides(launch.dq, 300 * 3 * 128, 128, 3 * 128);
      expect_strides(launch.dk, 3 * 300 * 128, 300 * 128, 128);
      expect_strides(launch.dv, 300 * 3 * 128, 128, 3 * 128);
    }
  });
}

// A repeated operand has stride 0, which the copy engine does not take: it has one index there.
TEST_F(StridedAttention, tells_the_copy_engine_of_hopper_of_repeated_heads) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Operand q = testing::make_operand(DType::bf16, {2, 3, 300, 64});
    Operand k = testing::make_operand(DType::bf16, {2, 1, 300, 64});
    k.layout = dense_layout({DType::bf16, {2, 3, 300, 64}});
    k.layout.strides = {300 * 64, 0, 64, 1};
    NodeRun run(*device, Op::attention, {q, k, k}, scores(64, true));
    EXPECT_EQ(run.kernel().name(), "attention_forward_hopper_few_bf16_64");
    const HopperAttentionForward launch = parameters_of<HopperAttentionForward>(run).at(0);
    expect_map(launch.k, {64, 300, 1, 2}, {128, 16, 300 * 128});
    EXPECT_EQ(launch.k.inner, 0);
    EXPECT_EQ(launch.k.outer, 1);
  });
}

TEST_F(StridedAttention, takes_the_portable_kernel_for_strides_that_the_copy_engine_cannot_take) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Operand q = testing::make_operand(DType::bf16, {2, 3, 300, 64});
    Operand one_row = testing::make_operand(DType::bf16, {2, 3, 1, 64});
    one_row.layout = dense_layout({DType::bf16, {2, 3, 300, 64}});
    one_row.layout.strides = {3 * 64, 64, 0, 1};
    NodeRun run(*device, Op::attention, {q, one_row, q}, scores(64, true));
    EXPECT_EQ(run.kernel().name(), "attention_forward_tiled_bf16_64");
  });
}

TEST_F(StridedAttention, refuses_rows_that_no_stride_reaches) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const Operand x = testing::make_operand(DType::bf16, {2, 3, 5, 4, 64});
    const Operand turned = testing::make_operand(DType::bf16, {2, 3, 5, 4, 64}, {.storage_order = {1, 0, 2, 3, 4}});
    EXPECT_THROW(NodeRun(*device, Op::attention, {turned, x, x}, scores(64, true)), Error);
  });
}

TEST_F(StridedAttention, tells_a_rotation_where_rows_of_the_output_lie) {
  on_fake_card([] {
    const auto device = make_cuda_device(0);
    const std::vector<Operand> operands = {testing::make_operand(DType::bf16, {2, 3, 5, 64}),
                                           testing::make_operand(DType::fp32, {5, 32}),
                                           testing::make_operand(DType::fp32, {5, 32})};
    const Attributes attributes{{"axis", std::int64_t{2}}, {"inverse", false}};
    NodeRun dense(*device, Op::rope, operands, attributes);
    const RopeRows merged = parameters_of<RopeRows>(dense).at(0);
    EXPECT_EQ(merged.depth, 2);
    EXPECT_EQ(merged.output_strides[0], 5 * 64);
    EXPECT_EQ(merged.output_strides[1], 64);
    NodeRun placed(*device, Op::rope, operands, attributes, false, {kHeadsInRows});
    const RopeRows rows = parameters_of<RopeRows>(placed).at(0);
    EXPECT_EQ(rows.depth, 3);
    EXPECT_EQ(std::vector(rows.strides, rows.strides + 3), (std::vector<std::int64_t>{3 * 5 * 64, 5 * 64, 64}));
    EXPECT_EQ(std::vector(rows.output_strides, rows.output_strides + 3),
              (std::vector<std::int64_t>{3 * 5 * 64, 64, 3 * 64}));
    EXPECT_EQ(placed.kernel().name(), "rope_forward_vectors_bf16");
  });
}

class OnCardStridedAttention : public testing::OnCard {
 protected:
  // Copies of the operands as the parts of one product [B,S,NH,D].
  static std::vector<Operand> packed(const std::vector<Operand>& dense) {
    const auto count = static_cast<std::int64_t>(dense.size());
    std::vector<Operand> operands = dense;
    for (std::int64_t i = 0; i < count; ++i) {
      Operand& operand = operands[static_cast<std::size_t>(i)];
      const Shape& shape = operand.layout.shape;
      const std::size_t bytes = size_bytes(operand.layout.dtype);
      const std::int64_t row = count * shape[1] * shape[3];
      operand.layout.strides = {shape[2] * row, shape[3], row, 1};
      operand.offset = i * shape[1] * shape[3];
      // What lies between the rows must not be read: NaN.
      operand.storage.assign(static_cast<std::size_t>(shape[0] * shape[2] * row) * bytes, std::byte{0xff});
      for (std::int64_t element = 0; element < shape.elements(); ++element) {
        const std::vector<std::int64_t> index = testing::unravel(shape, element);
        std::int64_t at = operand.offset;
        for (std::size_t axis = 0; axis < 4; ++axis) at += index[axis] * operand.layout.strides[axis];
        std::copy_n(dense[static_cast<std::size_t>(i)].storage.begin() + element * static_cast<std::ptrdiff_t>(bytes),
                    bytes, operand.storage.begin() + at * static_cast<std::ptrdiff_t>(bytes));
      }
    }
    return operands;
  }

  Operand random(DType dtype, const Shape& shape) { return testing::random_operand(dtype, shape, random_); }

  void expect_equal_bits(Op op, const std::vector<Operand>& dense, const std::vector<Operand>& strided,
                         const Attributes& attributes, const std::vector<LayoutChoice>& places) {
    const std::vector<HostTensor> expected = NodeRun(*device_, op, dense, attributes).launch();
    const std::vector<HostTensor> found = NodeRun(*device_, op, strided, attributes, false, places).launch();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].data, expected[i].data) << name(op) << " result " << i << " of " << dense[0].type().to_string()
                                                 << " to " << dense[1].type().to_string();
    }
  }

  // [B,H,S,D] and [B,H,K,D].
  void expect_equal_bits(DType dtype, const Shape& of_queries, const Shape& of_keys, bool causal) {
    const std::vector<Operand> q = {random(dtype, of_queries), random(dtype, of_queries)};
    const std::vector<Operand> kv = {random(dtype, of_keys), random(dtype, of_keys)};
    const std::vector<Operand> strided_q = packed(q);
    const std::vector<Operand> strided_kv = packed(kv);
    const Attributes attributes = scores(of_queries[-1], causal);
    const std::vector<Operand> forward = {q[0], kv[0], kv[1]};
    expect_equal_bits(Op::attention, forward, {strided_q[0], strided_kv[0], strided_kv[1]}, attributes, {kHeadsInRows});

    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, forward, attributes).launch();
    const Operand o{dense_layout(results[0].type), results[0].data};
    const Operand log_sum_exp{dense_layout(results[1].type), results[1].data};
    const std::vector<Operand> rows = packed({o});
    expect_equal_bits(Op::attention_backward, {q[1], q[0], kv[0], kv[1], o, log_sum_exp},
                      {strided_q[1], strided_q[0], strided_kv[0], strided_kv[1], rows[0], log_sum_exp}, attributes,
                      {kHeadsInRows, kHeadsInRows, kHeadsInRows});
  }

  std::mt19937 random_{31};
};

TEST_F(OnCardStridedAttention, has_the_bits_of_dense_operands_and_results) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 80, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::int64_t length : {1, 64, 150, 257}) {
        for (const bool causal : {false, true}) {
          expect_equal_bits(dtype, {2, 3, length, width}, {2, 3, length, width}, causal);
        }
      }
      expect_equal_bits(dtype, {2, 3, 70, width}, {2, 3, 150, width}, false);
      expect_equal_bits(dtype, {2, 3, 70, width}, {2, 3, 300, width}, false);
    }
  }
}

// One stride over the batch of [B,S,D]; two over [A,B,H,S,D] with a dense [A,B].
TEST_F(OnCardStridedAttention, takes_other_ranks) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Attributes attributes = scores(64, true);
    for (const auto& [shape, order] : {std::pair(Shape{150, 64}, std::vector<int>{0, 1}),
                                       {Shape{3, 150, 64}, {1, 0, 2}},
                                       {Shape{2, 2, 3, 70, 64}, {0, 1, 3, 2, 4}}}) {
      std::vector<Operand> dense;
      std::vector<Operand> strided;
      for (int i = 0; i < 3; ++i) {
        dense.push_back(random(dtype, shape));
        strided.push_back(testing::make_operand(dtype, shape, {.storage_order = order}));
        const std::size_t bytes = size_bytes(dtype);
        for (std::int64_t element = 0; element < shape.elements(); ++element) {
          const std::vector<std::int64_t> index = testing::unravel(shape, element);
          std::int64_t at = 0;
          for (std::size_t axis = 0; axis < index.size(); ++axis)
            at += index[axis] * strided.back().layout.strides[axis];
          std::copy_n(dense.back().storage.begin() + element * static_cast<std::ptrdiff_t>(bytes), bytes,
                      strided.back().storage.begin() + at * static_cast<std::ptrdiff_t>(bytes));
        }
      }
      expect_equal_bits(Op::attention, dense, strided, attributes, {{.storage_order = order}});
    }
  }
}

// The gradients of attention, as results, or side by side as the operand of a product.
struct Gradients {
  std::int64_t key_heads;
  bool rotates;

  Graph graph(bool side_by_side) const {
    constexpr std::int64_t kBatch = 2, kLength = 200, kHeads = 6, kWidth = 128;
    Graph graph;
    const auto operand = [&](const char* name, DType dtype, const Shape& shape) {
      return input(graph, name, {dtype, shape}, Role::data);
    };
    const Value q = operand("q", DType::bf16, {kBatch, kHeads, kLength, kWidth});
    const Value k = operand("k", DType::bf16, {kBatch, key_heads, kLength, kWidth});
    const Value v = operand("v", DType::bf16, {kBatch, key_heads, kLength, kWidth});
    const auto [o, log_sum_exp] = attention(graph, q, k, v, {0.09, true});
    std::vector<Value> operands = {operand("do", DType::bf16, graph.type(o).shape), q, k, v, o, log_sum_exp};
    if (rotates) {
      for (const char* table : {"cosines", "sines"})
        operands.push_back(operand(table, DType::fp32, {kLength, kWidth / 2}));
    }
    Attributes attributes = scores(kWidth, true);
    if (key_heads != kHeads) attributes.set("sums_key_gradients", true);
    const NodeId made = make_node(graph, Op::attention_backward, operands, attributes);
    std::vector<Value> rows;
    for (const Value gradient : std::vector<Value>(graph.node(made).outputs)) {
      const Value turned = transpose(graph, gradient, {0, 2, 1, 3});
      const Shape shape = graph.type(turned).shape;
      rows.push_back(reshape(graph, turned, {shape[0] * shape[1], shape[2] * shape[3]}));
    }
    if (side_by_side) rows = {concat(graph, rows, 1)};
    for (std::size_t i = 0; i < rows.size(); ++i) graph.add_output(std::to_string(i), neg(graph, rows[i]));
    return graph;
  }
};

std::span<const std::byte> row_of(const HostTensor& tensor, std::size_t row) {
  const std::size_t bytes = tensor.data.size() / static_cast<std::size_t>(tensor.type.shape[0]);
  return std::span(tensor.data).subspan(row * bytes, bytes);
}

TEST_F(OnCardStridedAttention, writes_gradients_within_the_operand_of_a_product) {
  const bool is_hopper = device_->facts().compute_capability == "9.0";
  for (const Gradients& of : {Gradients{6, false}, Gradients{6, true}, Gradients{2, false}, Gradients{2, true}}) {
    // Other kernels neither rotate gradients nor add those of keys.
    if (!is_hopper && (of.rotates || of.key_heads == 2)) continue;
    Program program(of.graph(true), device_);
    EXPECT_TRUE(std::ranges::none_of(program.graph().order(),
                                     [&](NodeId id) { return program.graph().node(id).op == Op::copy; }));
    const testing::Tensors inputs = testing::random_inputs(program.graph(), testing::OpCase{Op::input, "", nullptr}, 5);
    for (const auto& [name, tensor] : inputs) program.write_input(name, tensor);
    program.run();
    const HostTensor all = program.read_output("0");
    const testing::Tensors parts = testing::run_graph(of.graph(false), device_, inputs);
    for (std::size_t row = 0; row < static_cast<std::size_t>(all.type.shape[0]); ++row) {
      std::vector<std::byte> expected;
      for (const auto& [name, part] : parts) std::ranges::copy(row_of(part, row), std::back_inserter(expected));
      ASSERT_TRUE(std::ranges::equal(row_of(all, row), expected))
          << "row " << row << " heads of keys " << of.key_heads << " rotates " << of.rotates;
    }
  }
}

TEST_F(OnCardStridedAttention, rotations_have_the_bits_of_dense_results) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {8, 12, 64, 80}) {
      for (const std::int64_t axis : {1, 2}) {
        const Shape shape{2, 3, 5, width};
        const Shape table{Dim(shape[static_cast<int>(axis)]), Dim(width / 2)};
        const std::vector<Operand> operands = {random(dtype, shape), random(DType::fp32, table),
                                               random(DType::fp32, table)};
        for (const bool inverse : {false, true}) {
          expect_equal_bits(Op::rope, operands, {packed({operands[0]})[0], operands[1], operands[2]},
                            {{"axis", axis}, {"inverse", inverse}}, {kHeadsInRows});
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
