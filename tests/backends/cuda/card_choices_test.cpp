// A described GPU plans as the GPU itself: the same graph, and the memory of its runs to the byte.
#include "backends/cuda/card_choices.h"

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "predict/forecast.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TransformerConfig kModel{"custom", 50, 16, 32, 48, 2, 2};
const TransformerConfig kWideModel{"custom", 50, 16, 128, 256, 2, 2};  // its linear layers compute in fp8

std::shared_ptr<Device> described(std::string_view card) {
  DeviceOptions options;
  options.card = describe_card(*find_datasheet(card));
  return open_device("null", options);
}

// Runs on `card` what the described GPU of its name has planned.
void expect_same_plans(const std::shared_ptr<Device>& card) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8}) {
    for (const Compile level : kAllCompiles) {
      for (const AttentionVariant attention : {AttentionVariant::composite, AttentionVariant::flash}) {
        TransformerConfig model = precision == Precision::fp8 ? kWideModel : kModel;
        model.attention = attention;
        const Transformer workload(model, 2);
        const ProgramOptions options{.compile = {.mode = Mode::step, .precision = precision, .level = level}};
        const ProgramPlan there(workload.build(), card, options);
        const ProgramPlan planned(workload.build(), described(card->name()), options);
        EXPECT_EQ(print_graph(planned.graph()), print_graph(there.graph())) << name(level) << ' ' << name(attention);
        Program program(there);
        initialise(program, workload, 0);
        for (int run = 0; run < 2; ++run) program.run();
        program.synchronize();
        const MemoryForecast found = memory_of(program);
        const MemoryForecast forecast = forecast_memory(planned);
        EXPECT_EQ(forecast.use.peak_allocated_bytes, found.use.peak_allocated_bytes);
        EXPECT_EQ(forecast.use.peak_reserved_bytes, found.use.peak_reserved_bytes);
        EXPECT_EQ(forecast.use.peak_requested_bytes, found.use.peak_requested_bytes);
        EXPECT_EQ(forecast.before_backward_bytes, found.before_backward_bytes);
      }
    }
  }
}

class CardChoicesOnFakeCard : public testing::OnFakeCard {};
TEST_F(CardChoicesOnFakeCard, plan_what_a_program_on_the_card_takes) {
  use_fake_compiler();
  on_fake_card([] { expect_same_plans(open_device("cuda")); });
}

class OnCardChoices : public testing::OnCard {};
TEST_F(OnCardChoices, plan_what_a_program_on_the_card_takes) {
  if (find_datasheet(device_->name()) == nullptr) GTEST_SKIP() << "there is no datasheet of " << device_->name();
  expect_same_plans(device_);
}

TEST(CardChoices, describe_the_card) {
  const std::shared_ptr<Device> device = described("h100");
  EXPECT_EQ(device->kind(), "null");
  EXPECT_EQ(device->name(), "H100 SXM");
  EXPECT_EQ(device->facts().compute_capability, "9.0");
  EXPECT_EQ(device->facts().multiprocessors, 132);
}

// The tiles of the backward in fp32 need more shared memory than compute capability 8.9 gives a block; those of 16-bit
// operands do not.
TEST(CardChoices, differ_by_the_shared_memory_of_a_block) {
  const auto has_kernels = [](std::string_view card, const TensorType& type, Op op) {
    Graph graph;
    const Value q = input(graph, "q", type, Role::data);
    const auto [o, log_sum_exp] = attention(graph, q, q, q, {0.1, true});
    const NodeId backward =
        make_node(graph, Op::attention_backward, {q, q, q, q, o, log_sum_exp}, {{"causal", true}, {"scale", 0.1}});
    return described(card)->has_kernel(graph, op == Op::attention ? graph.producer_node(o) : graph.node(backward));
  };
  const TensorType fp32{DType::fp32, {2, 64, 64}};
  const TensorType bf16{DType::bf16, {2, 64, 256}};
  for (const char* card : {"h100", "a100", "b200"}) {
    EXPECT_TRUE(has_kernels(card, fp32, Op::attention_backward)) << card;
    EXPECT_TRUE(has_kernels(card, bf16, Op::attention_backward)) << card;
  }
  for (const char* card : {"rtx 4090", "rtx 3090", "a10", "rtx 5090"}) {
    EXPECT_TRUE(has_kernels(card, fp32, Op::attention)) << card;
    EXPECT_FALSE(has_kernels(card, fp32, Op::attention_backward)) << card;
    EXPECT_TRUE(has_kernels(card, bf16, Op::attention)) << card;
    EXPECT_TRUE(has_kernels(card, bf16, Op::attention_backward)) << card;
  }
}

TEST(CardChoices, have_the_workspace_of_the_fp32_kernel_on_hopper_only) {
  Graph graph;
  const TensorType type{DType::fp32, {128, 128}};
  const Value a = input(graph, "a", type, Role::data);
  const Value product = matmul(graph, a, a);
  const std::array inputs{dense_layout(type), dense_layout(type)};
  const std::array outputs{dense_layout(type)};
  const KernelSpec spec{graph, graph.producer_node(product), inputs, outputs};
  EXPECT_GT(described("h100")->outline(spec).workspace_bytes, 0U);
  EXPECT_EQ(described("a100")->outline(spec).workspace_bytes, 0U);
}

TEST(CardChoices, multiply_8_bit_codes_from_compute_capability_8_9_on) {
  const auto product = [](Shape left, Shape right, DType codes) {
    Graph graph;
    const Value scale = input(graph, "scale", {DType::fp32, {}}, Role::data);
    const Value a = input(graph, "a", {DType::e5m2, left}, Role::data);
    const Value b = input(graph, "b", {codes, right}, Role::data);
    scaled_matmul(graph, a, scale, b, scale, DType::bf16);
    return graph;
  };
  const auto is_multiplied = [](std::string_view card, const Graph& graph) {
    return described(card)->has_kernel(graph, graph.node(graph.order().back()));
  };
  const Graph usual = product({32, 48}, {16, 48}, DType::e4m3);
  for (const char* card : {"rtx 4090", "h100", "b200"}) EXPECT_TRUE(is_multiplied(card, usual)) << card;
  EXPECT_FALSE(is_multiplied("a100", usual));
  EXPECT_FALSE(is_multiplied("h100", product({32, 40}, {16, 40}, DType::e4m3))) << "not a multiple of 16";
  EXPECT_FALSE(is_multiplied("h100", product({32, 48}, {16, 48}, DType::e5m2))) << "two gradients";
}

TEST(CardChoices, are_refused_for_a_card_that_no_kernel_runs_on) {
  EXPECT_FALSE(can_describe_card(find_datasheet("t4")->compute_capability));
  EXPECT_TRUE(can_describe_card(find_datasheet("a100")->compute_capability));
  EXPECT_THAT(error_of([&] { described("t4"); }, ErrorKind::unsupported), HasSubstr("T4"));
}

}  // namespace
}  // namespace ridgepoint
