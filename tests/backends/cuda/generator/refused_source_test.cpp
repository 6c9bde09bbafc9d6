// What happens where NVRTC refuses a source.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "core/warning.h"
#include "inspect/attention/benchmark.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/steps/step_benchmark.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Two products with a sum and an exponential between them, which are one fused node.
Graph product_sum_product() {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {8, 8}}, Role::data);
  const Value b = exp(graph, add(graph, matmul(graph, a, a), a));
  graph.add_output("c", matmul(graph, b, a));
  return graph;
}

struct RefusedSourceOnFakeCard : testing::OnFakeCard {
  void SetUp() override {
    OnFakeCard::SetUp();
    use_fake_compiler();
  }
  static int launches() { return fake_count("fake_card_launches"); }

  // The warnings and the launched kernels of one run.
  struct Ran {
    std::vector<std::string> warnings;
    int launches = 0;
    std::vector<std::string> unfused;
  };
  static Ran run_once(Compile level) {
    Ran ran;
    set_warning_handler([&](std::string_view message) { ran.warnings.emplace_back(message); });
    Program program(product_sum_product(), open_device("cuda"), {.compile = {.level = level}});
    program.run();
    program.run();
    const int before = launches();
    if (level == Compile::fuse) program.run();
    ran.launches = launches() - before;
    ran.unfused = program.unfused_bodies();
    set_warning_handler({});
    return ran;
  }
};

TEST_F(RefusedSourceOnFakeCard, a_fused_node_runs_as_one_kernel_where_it_compiles) {
  on_fake_card([] {
    const Ran ran = run_once(Compile::fuse);
    EXPECT_EQ(ran.launches, 3) << "two products and what is between them";
    EXPECT_THAT(ran.unfused, IsEmpty());
    EXPECT_THAT(ran.warnings, IsEmpty());
  });
}

TEST_F(RefusedSourceOnFakeCard, a_fused_node_runs_op_by_op_where_it_does_not_and_says_so_once) {
  set("FAKE_NVRTC_REFUSES", "fused_");
  on_fake_card([] {
    const Ran ran = run_once(Compile::fuse);
    EXPECT_EQ(ran.launches, 4);
    EXPECT_THAT(ran.unfused, ElementsAre("fused_add_exp"));
    EXPECT_THAT(ran.warnings, ElementsAre(AllOf(StartsWith("fused_add_exp runs op by op"), HasSubstr("NVRTC"),
                                                Not(HasSubstr("another")))));
  });
}

TEST_F(RefusedSourceOnFakeCard, a_captured_run_has_the_kernels_of_the_body) {
  set("FAKE_NVRTC_REFUSES", "fused_");
  on_fake_card([] {
    EXPECT_THAT(run_once(Compile::full).unfused, ElementsAre("fused_add_exp"));
    EXPECT_EQ(fake_count("fake_card_captured_runs"), 1);
  });
}

TEST_F(RefusedSourceOnFakeCard, a_single_op_that_does_not_compile_is_an_error_with_the_compilers_log) {
  set("FAKE_NVRTC_REFUSES", "add_vector");
  on_fake_card([] {
    Program program(product_sum_product(), open_device("cuda"));
    try {
      program.run();
      ADD_FAILURE() << "it ran";
    } catch (const cuda::RefusedSource& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("add_vector"), HasSubstr("line 2: another")));
    }
  });
}

TEST_F(RefusedSourceOnFakeCard, a_record_names_the_bodies_that_ran_op_by_op) {
  set("FAKE_NVRTC_REFUSES", "fused_");
  on_fake_card([] {
    RunConfig config;
    config.device = "cuda";
    config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2);
    config.compile.level = Compile::fuse;
    CeilingCache ceilings;
    const std::optional<Record> step = measure_step(config, ceilings);
    EXPECT_EQ(step->status, RunStatus::ok) << step->error.message;
    EXPECT_THAT(step->unfused_bodies, Contains(StartsWith("fused_")));

    AttentionConfig call;
    call.device = "cuda";
    call.problem = {.batch = 1, .d_model = 16, .queries = 64, .keys = 64};
    call.compile.level = Compile::full;
    const std::optional<Record> attention = measure_attention(call);
    EXPECT_EQ(attention->status, RunStatus::ok) << attention->error.message;
    EXPECT_THAT(attention->unfused_bodies, Contains(StartsWith("fused_")));
    EXPECT_EQ(attention->captured, true);
  });
}

}  // namespace
}  // namespace ridgepoint
