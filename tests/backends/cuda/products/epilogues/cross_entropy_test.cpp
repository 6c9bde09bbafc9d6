// Products whose epilogue is cross-entropy: which bodies are recognised, what is planned, and what a step has of them.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "backends/cuda/card_choices.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/fused_product_runs.h"
#include "backends/cuda/products/epilogues/loss_case.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "plan/plan.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

using cuda::CrossEntropyEpilogue;
using cuda::CrossEntropyPlan;
using testing::entry_of;
using testing::hopper_card;
using testing::LossCase;

const std::string kLossBody = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,16] = input() {name="1", role="data"}
%2:bf16[4,16] = matmul(%0, %1)
%3:int64[4] = input() {name="2", role="data"}
%4:fp32[4], %5:fp32[4] = cross_entropy(%2, %3)
)";

std::optional<CrossEntropyEpilogue> loss_in(const std::string& lines) {
  return cuda::cross_entropy_of(FusedBody(testing::graph_of(lines)));
}

TEST(CrossEntropyEpilogue, is_the_loss_of_a_product_with_or_without_its_logits_as_a_result) {
  const std::optional<CrossEntropyEpilogue> kept =
      loss_in(kLossBody + "output \"0\" %2\noutput \"1\" %4\noutput \"2\" %5\n");
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->logits, std::optional<std::size_t>(0));
  EXPECT_EQ(kept->losses, 1U);
  EXPECT_EQ(kept->log_sum_exps, std::optional<std::size_t>(2));
  EXPECT_EQ(kept->product.m, 4);
  EXPECT_EQ(kept->product.n, 16);
  EXPECT_EQ(kept->product.k, 6);
  const std::optional<CrossEntropyEpilogue> alone = loss_in(kLossBody + "output \"0\" %4\n");
  ASSERT_TRUE(alone.has_value());
  EXPECT_FALSE(alone->logits.has_value());
  EXPECT_FALSE(alone->log_sum_exps.has_value());
}

TEST(CrossEntropyEpilogue, is_nothing_else) {
  EXPECT_FALSE(loss_in(kLossBody + "output \"0\" %5\n").has_value()) << "no losses";
  EXPECT_FALSE(loss_in(kLossBody + "%6:fp32[4] = exp(%4)\noutput \"0\" %6\noutput \"1\" %4\n").has_value());
  const std::string capped = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,16] = input() {name="1", role="data"}
%2:bf16[4,16] = matmul(%0, %1)
%3:bf16[4,16] = tanh(%2)
%4:int64[4] = input() {name="2", role="data"}
%5:fp32[4], %6:fp32[4] = cross_entropy(%3, %4)
output "0" %5
)";
  EXPECT_FALSE(loss_in(capped).has_value());
}

TEST(CrossEntropyPlan, covers_every_token_and_every_entry_of_the_vocabulary) {
  for (const bool keeps : {false, true}) {
    const LossCase some(keeps, 1000, 768, 10000);
    const std::optional<CrossEntropyPlan> plan = some.plan();
    ASSERT_TRUE(plan.has_value());
    for (const cuda::EpilogueTiling& tiling : plan->candidates()) {
      const std::vector<cuda::EpilogueLaunch> launches = plan->launches(tiling, 132);
      ASSERT_EQ(launches.size(), 2U);
      testing::expect_covered(launches[0], tiling, 1000, 10000, tiling.columns);
      EXPECT_EQ(launches[0].fields.size(), keeps ? 6U : 5U);
      EXPECT_EQ(launches[1].shape.grid_x, 32U) << "32 rows a block";
      EXPECT_EQ(launches[1].fields.size(), keeps ? 5U : 4U);
      const auto parts = static_cast<std::size_t>((10000 + tiling.columns - 1) / tiling.columns);
      EXPECT_GE(plan->workspace_bytes(), 1000 * (sizeof(float) + parts * 2 * sizeof(float)));
    }
  }
}

TEST(CrossEntropyPlan, leaves_to_the_library_what_the_copy_engine_does_not_take) {
  LossCase some(true, 64, 64, 64);
  EXPECT_TRUE(some.plan().has_value());
  some.layouts[1].strides = {64, 1};
  EXPECT_FALSE(some.plan().has_value()) << "weights by rows";
  some.layouts[1].strides = {1, 68};
  EXPECT_FALSE(some.plan().has_value()) << "columns at multiples of 136 bytes";
  some.layouts[1].strides = {1, 72};
  EXPECT_TRUE(some.plan().has_value());
  some.layouts[0].strides = {1, 64};
  EXPECT_FALSE(some.plan().has_value()) << "x by columns";
}

TEST(CrossEntropyPlan, writes_logits_of_any_vocabulary_in_padded_rows) {
  LossCase some(true, 64, 64, 50257);
  EXPECT_TRUE(some.plan().has_value());
  some.results[0] = dense_layout(some.graph.type(some.graph.node(some.node).outputs[0]));
  EXPECT_FALSE(some.plan().has_value()) << "rows of 100,514 bytes";
  EXPECT_TRUE(LossCase(false, 64, 64, 50257).plan().has_value());
}

TEST(CrossEntropyVariants, are_for_hopper_and_whole_vectors) {
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 64)), "fused_cross_entropy_128x128_2x1_bf16");
  EXPECT_EQ(entry_of(LossCase(false, 64, 64, 64, DType::fp16)), "fused_cross_entropy_128x128_2x1_fp16");
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 50304)), "fused_cross_entropy_128x128_2x1_bf16");
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 50257)), "fused_cross_entropy_128x128_2x1_bf16");
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 1001)), "") << "a row of 2002 bytes is not padded";
  EXPECT_EQ(entry_of(LossCase(true, 64, 60, 64)), "");
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 64, DType::fp32)), "");
  EXPECT_EQ(entry_of(LossCase(true, 64, 64, 64), hopper_card({8, 0})), "");
}

class CrossEntropyOnFakeCard : public testing::OnFakeCard {};

TEST_F(CrossEntropyOnFakeCard, needs_the_workspace_that_is_planned_whichever_way_is_chosen) {
  on_fake_card([] {
    for (const LossCase& some : {LossCase(true, 256, 512, 4096), LossCase(false, 256, 512, 4096)}) {
      testing::expect_planned_workspace(some.spec(), *some.plan());
    }
  });
}

TEST_F(CrossEntropyOnFakeCard, never_writes_logits_that_nobody_reads) {
  on_fake_card([] {
    cuda::CudaContext& context = cuda::CudaContext::of_card(0);
    const LossCase some(false, 256, 512, 4096);
    constexpr std::size_t kLogitsBytes = 256 * 4096 * 2;
    EXPECT_LT(cuda::outline_hand_written(context.card(), some.spec()).workspace_bytes, kLogitsBytes);
    const auto plan = some.plan();
    EXPECT_EQ(cuda::fused_product_ways(context, some.spec(), &*plan).size(), plan->candidates().size());
  });
}

// What a card runs in a step of a small model.
struct PlannedStep {
  std::string card = "H200 SXM";
  Precision precision = Precision::bf16;
  std::int64_t vocabulary = 1000;
  std::optional<std::int64_t> chunk = std::nullopt;
  Architecture architecture = {};
  Compile level = Compile::fuse;

  ProgramPlan plan() const {
    DeviceOptions described;
    described.card = describe_card(*find_datasheet(card));
    const TransformerConfig model{"custom", vocabulary, 64, 32, 64, 1, 2, AttentionVariant::composite, architecture};
    return {Transformer(model, 2).build(), open_device("null", described),
            ProgramOptions{
                .compile = {.mode = Mode::step, .precision = precision, .level = level, .loss_chunk_rows = chunk}}};
  }
};

std::vector<NodeId> products_with_losses(const Graph& graph) {
  std::vector<NodeId> found;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.body != nullptr && cuda::cross_entropy_of(*node.body)) found.push_back(id);
  }
  return found;
}

TEST(CrossEntropyOfProduct, is_one_node_of_a_step_whose_gradient_takes_the_place_of_the_logits) {
  for (const PlannedStep& some :
       {PlannedStep{}, PlannedStep{.precision = Precision::fp16}, PlannedStep{.architecture = {.tied_head = true}}}) {
    const ProgramPlan step = some.plan();
    const Graph& graph = step.graph();
    const std::vector<NodeId> products = products_with_losses(graph);
    ASSERT_EQ(products.size(), 1U) << print_graph(graph);
    const Node& product = graph.node(products[0]);
    EXPECT_EQ(product.phase, Phase::forward);
    EXPECT_EQ(graph.scope_name(product), "lm_head");
    EXPECT_EQ(testing::count(graph, Op::cross_entropy), 0U);
    ASSERT_EQ(testing::count(graph, Op::cross_entropy_backward), 1U);
    const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
    for (const PlanStep& planned : plan.steps) {
      if (graph.node(planned.node).op != Op::cross_entropy_backward) continue;
      EXPECT_EQ(planned.outputs[0].buffer, planned.inputs[1].buffer);
    }
  }
}

TEST(CrossEntropyOfProduct, is_a_node_of_each_chunk_of_the_loss) {
  EXPECT_EQ(products_with_losses(PlannedStep{.chunk = 32}.plan().graph()).size(), 4U);
}

// The gradient of logits takes their place all the same.
TEST(CrossEntropyOfProduct, has_padded_rows_for_an_odd_vocabulary) {
  const ProgramPlan padded = PlannedStep{.vocabulary = 2051, .architecture = {.tied_head = true}}.plan();
  const Graph& graph = padded.graph();
  ASSERT_EQ(products_with_losses(graph).size(), 1U) << print_graph(graph);
  const ExecutionPlan& plan = padded.execution();
  std::size_t gradients = 0;
  for (const PlanStep& step : plan.steps) {
    const Node& node = graph.node(step.node);
    if (node.op != Op::cross_entropy_backward) continue;
    ++gradients;
    EXPECT_EQ(step.outputs[0].layout.strides[0], 2112);
    EXPECT_EQ(step.inputs[1].layout.strides[0], 2112);
    EXPECT_EQ(step.outputs[0].buffer, step.inputs[1].buffer);
    EXPECT_EQ(plan.buffers[step.outputs[0].buffer].bytes, 2U * 128 * 2112);
  }
  EXPECT_EQ(gradients, 1U);
  EXPECT_EQ(testing::count(graph, Op::copy), 0U);
}

TEST(CrossEntropyOfProduct, is_slower_where_rows_are_not_aligned) {
  const LossCase aligned(true, 2048, 768, 50257);
  LossCase unaligned = aligned;
  unaligned.results[0] = dense_layout(aligned.graph.type(aligned.graph.node(aligned.node).outputs[0]));
  const auto share = [](const LossCase& some) {
    return std::get<EpilogueRate>(cuda::outline_hand_written(hopper_card(), some.spec()).rate).product.share;
  };
  EXPECT_EQ(share(aligned), cuda::kHalfProductRate.share);
  EXPECT_EQ(share(unaligned), cuda::kUnalignedHalfProductRate.share);
}

TEST(CrossEntropyOfProduct, stays_apart_where_no_kernel_ends_so) {
  const std::map<std::string, PlannedStep> steps = {{"rows of logits that are no whole vectors", {.vocabulary = 1001}},
                                                    {"another card", {.card = "A100 80GB SXM"}},
                                                    {"fp32", {.precision = Precision::fp32}},
                                                    {"logits with a soft cap", {.architecture = {.logit_cap = 2}}},
                                                    {"a graph that is not compiled", {.level = Compile::off}}};
  for (const auto& [what, some] : steps) {
    const ProgramPlan step = some.plan();
    EXPECT_TRUE(products_with_losses(step.graph()).empty()) << what;
    EXPECT_EQ(testing::count(step.graph(), Op::cross_entropy), 1U) << what;
  }
}

}  // namespace
}  // namespace ridgepoint
