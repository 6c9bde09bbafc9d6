// What a study runs on a machine, within a limit.
#include "study/plan/plan.h"

#include <algorithm>

#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "study/plan/edition.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::IsSupersetOf;
using Plan = std::vector<StudyPartPlan>;

StudyMachine laptop(double flops = 1e11) {
  return {.device = "cpu",
          .name = "a laptop",
          .memory_bytes = std::int64_t{8} << 30,
          .flops_per_second = {{DType::fp32, flops}},
          .bytes_per_second = 1e10};
}

StudyMachine large_card() {
  return {.device = "cuda",
          .name = "a card",
          .memory_bytes = std::int64_t{140} << 30,
          .flops_per_second = {{DType::fp32, 5e13}, {DType::bf16, 6e14}},
          .bytes_per_second = 4e12};
}

Plan quick_plan(const StudyMachine& machine, std::int64_t ranks = 1) {
  return plan_study(machine, {.device = machine.device, .ranks = ranks, .is_quick = true, .limit_seconds = 180});
}

double seconds(const Plan& plan) {
  double sum = 0;
  for (const StudyPartPlan& part : plan) sum += part.seconds();
  return sum;
}

std::int64_t rows(const Plan& plan) {
  std::int64_t sum = 0;
  for (const StudyPartPlan& part : plan) sum += part.rows();
  return sum;
}

const StudyPartPlan& find(const Plan& plan, StudyPart part) {
  return *std::ranges::find(plan, part, &StudyPartPlan::part);
}

// The values that a part gives an option, over its command lines.
std::vector<std::string> values(const StudyPartPlan& part, const std::string& option) {
  std::vector<std::string> found;
  for (const StudyCommand& command : part.commands) {
    const auto at = std::ranges::find(command.arguments, option);
    if (at != command.arguments.end()) found.push_back(*(at + 1));
  }
  return found;
}

TEST(StudyPlan, has_every_part_once_and_in_order) {
  for (const StudyMachine& machine : {laptop(), large_card()}) {
    const Plan plan = quick_plan(machine, 2);
    ASSERT_EQ(plan.size(), kStudyPartNames.all().size() - 3) << "without the parts of editions";
    EXPECT_EQ(quick_plan(machine).size(), plan.size() - 3) << "without the parts of several ranks";
    for (std::size_t i = 0; i < plan.size(); ++i) {
      EXPECT_EQ(plan[i].part, static_cast<StudyPart>(i));
      EXPECT_FALSE(plan[i].commands.empty()) << name(plan[i].part);
    }
  }
}

TEST(StudyPlan, keeps_within_its_limit) {
  EXPECT_LE(seconds(quick_plan(laptop())), 180);
  EXPECT_LE(seconds(quick_plan(laptop(), 2)), 180);
  EXPECT_LE(seconds(quick_plan(laptop(1e12))), 180) << "long sequences leave the last parts their time";
  EXPECT_LE(seconds(plan_study(laptop(), {.device = "cpu", .limit_seconds = 900})), 900);
  EXPECT_LE(seconds(plan_study(large_card(), {.device = "cuda", .limit_seconds = 1200})), 1200);
}

TEST(StudyPlan, measures_more_on_a_faster_machine) {
  EXPECT_GT(rows(quick_plan(laptop(1e12))), rows(quick_plan(laptop(2e10))));
}

TEST(StudyPlan, has_the_least_rows_of_every_part_on_a_slow_machine) {
  for (const StudyPartPlan& part : quick_plan(laptop(1e9))) EXPECT_GE(part.commands.size(), 1U) << name(part.part);
}

TEST(StudyPlan, has_the_whole_exercise_on_a_large_card) {
  const Plan plan = plan_study(large_card(), {.device = "cuda", .limit_seconds = 1200});
  EXPECT_EQ(values(find(plan, StudyPart::sizes), "--model"),
            (std::vector<std::string>{"small", "small", "medium", "large", "xl", "2.7b"}));
  EXPECT_THAT(values(find(plan, StudyPart::sizes), "--steps"), Contains("10"));
  EXPECT_EQ(values(find(plan, StudyPart::contexts), "--context"),
            (std::vector<std::string>{"128", "256", "512", "1024"}));
  EXPECT_EQ(values(find(plan, StudyPart::attention_grid), "--sequence"),
            (std::vector<std::string>{"256", "1024", "4096", "8192", "16384"}));
  EXPECT_THAT(values(find(plan, StudyPart::flash), "--sequence"), Contains("65536"));
  EXPECT_EQ(values(find(plan, StudyPart::checkpointing), "--model"), std::vector<std::string>{"large"});
}

// The second command line of these parts was left out where the first had used up the share of the time.
TEST(StudyPlan, has_all_sums_and_types_however_little_time_there_is) {
  const Plan plan = plan_study(laptop(1e9), {.device = "cpu", .is_quick = true, .limit_seconds = 5});
  EXPECT_EQ(values(find(plan, StudyPart::accumulation), "--term"), std::vector<std::string>{"100"});
  EXPECT_EQ(values(find(plan, StudyPart::autocast), "--autocast"), (std::vector<std::string>{"fp16", "bf16"}));
}

TEST(StudyPlan, has_a_step_in_fp16_whose_skipped_updates_are_counted) {
  for (const StudyMachine& machine : {laptop(), large_card()}) {
    const StudyPartPlan sizes = find(quick_plan(machine), StudyPart::sizes);
    const StudyCommand& scaled = sizes.commands.at(1);
    EXPECT_THAT(scaled.arguments, IsSupersetOf({"bench", "--mode", "step", "--dtype", "fp16"}));
    EXPECT_EQ(scaled.rows, 1);
  }
}

TEST(StudyPlan, divides_models_among_the_ranks_that_it_is_given) {
  const Plan plan = quick_plan(large_card(), 4);
  const StudyPartPlan& ranks = find(plan, StudyPart::ranks);
  EXPECT_EQ(values(ranks, "--model"), (std::vector<std::string>{"large", "small"}));
  EXPECT_THAT(values(ranks, "--parallel"), Contains("data=4").Times(2));
  EXPECT_THAT(values(ranks, "--ranks"), Contains("4").Times(2));
  EXPECT_THAT(values(ranks, "--shard"), Contains("none,optimizer,gradients,parameters").Times(2));
  EXPECT_EQ(values(find(plan, StudyPart::collectives), "--ranks"), std::vector<std::string>{"4"});
}

TEST(StudyPlan, takes_the_models_that_it_is_given) {
  StudySettings settings{.device = "cpu", .is_quick = true, .limit_seconds = 180};
  settings.models = {"tiny"};
  const Plan plan = plan_study(laptop(), settings);
  for (const StudyPartPlan& part : plan) {
    for (const std::string& model : values(part, "--model")) EXPECT_EQ(model, "tiny") << name(part.part);
  }
}

TEST(StudyPlan, passes_replaced_fields_on_with_every_model) {
  StudySettings settings{.device = "cpu", .is_quick = true, .limit_seconds = 180};
  settings.models = {"smollm2-135m"};
  const double seconds = find(plan_study(laptop(), settings), StudyPart::warmup).seconds();
  settings.config_overrides = "num_hidden_layers=2,vocab_size=512";
  const Plan plan = plan_study(laptop(), settings);
  for (const StudyPartPlan& part : plan) {
    const std::vector<std::string> models = values(part, "--model");
    EXPECT_EQ(values(part, "--config-override"), std::vector<std::string>(models.size(), settings.config_overrides));
  }
  EXPECT_LT(find(plan, StudyPart::warmup).seconds(), 0.5 * seconds) << "the predictions are of the smaller model";
}

TEST(StudyPlan, passes_threads_and_memory_limit_on) {
  StudySettings settings{.device = "cpu", .threads = 3, .is_quick = true, .limit_seconds = 180};
  settings.memory_limit = "1GiB";
  for (const StudyPartPlan& part : plan_study(laptop(), settings)) {
    for (const StudyCommand& command : part.commands) {
      const bool measures_device = command.arguments.front() == "bench" || command.arguments.front() == "memory";
      if (!measures_device) continue;
      EXPECT_THAT(command.arguments, Contains("--threads"));
      EXPECT_THAT(command.arguments, Contains("1GiB"));
    }
  }
}

TEST(StudyPlan, never_fills_the_memory_of_a_host) {
  const StudyPartPlan grid = find(quick_plan(laptop()), StudyPart::attention_grid);
  const StudyCommand& longest = grid.commands.back();
  EXPECT_THAT(longest.arguments, IsSupersetOf({"16384", "--memory-limit", "2048MiB"}));
  EXPECT_THAT(grid.commands.front().arguments, Not(Contains("--memory-limit")));
  const StudyPartPlan grid_of_card = find(quick_plan(large_card()), StudyPart::attention_grid);
  for (const StudyCommand& command : grid_of_card.commands)
    EXPECT_THAT(command.arguments, Not(Contains("--memory-limit")));
}

// The values of an option in the command lines that measure, or in those that plan for a card.
std::vector<std::string> values_of(const StudyPartPlan& part, const std::string& option, bool is_planned) {
  StudyPartPlan chosen = part;
  std::erase_if(chosen.commands, [&](const StudyCommand& command) {
    return (std::ranges::find(command.arguments, "--card") != command.arguments.end()) != is_planned;
  });
  return values(chosen, option);
}

StudySettings like(std::string edition, std::string device, double limit_seconds = 1200) {
  return {.device = std::move(device), .like = std::move(edition), .limit_seconds = limit_seconds};
}

TEST(Edition, measures_its_own_models_and_contexts_on_a_large_card) {
  const StudyMachine card = study_machine(*find_datasheet("h200"));
  const Plan plan = plan_study(card, like("cs336-2026", "cuda"));
  EXPECT_LE(seconds(plan), 1200);
  EXPECT_THAT(values_of(find(plan, StudyPart::sizes), "--model", false),
              ElementsAre("small", "small", "medium", "large", "xl-2026", "10b"));
  EXPECT_THAT(values(find(plan, StudyPart::sizes), "--context"), Each("512"));
  EXPECT_EQ(values(find(plan, StudyPart::memory_peaks), "--context"), (std::vector<std::string>{"128", "2048"}));
  EXPECT_EQ(find(plan, StudyPart::profile).commands.size(), 6U) << "two models at three contexts";
  EXPECT_THAT(values(find(plan, StudyPart::checkpointing), "--segment"), Contains("1,2,3,4,6,8,16"));
  EXPECT_THAT(values(find(plan, StudyPart::flash), "--causal"), Each("true"));
}

TEST(Edition, plans_for_the_card_of_its_course_what_a_laptop_cannot_run) {
  const Plan plan = plan_study(laptop(), like("cs336-2025", "cpu", 180));
  EXPECT_LE(seconds(plan), 180);
  EXPECT_THAT(values_of(find(plan, StudyPart::sizes), "--model", true),
              ::testing::IsSupersetOf({"medium", "large", "xl", "2.7b"}));
  EXPECT_THAT(values_of(find(plan, StudyPart::sizes), "--card", true), Each("H100 SXM"));
  EXPECT_EQ(values_of(find(plan, StudyPart::memory_step), "--model", true), std::vector<std::string>{"2.7b"});
  EXPECT_THAT(values_of(find(plan, StudyPart::profile), "--model", false), Each(::testing::AnyOf("tiny", "22.7m")));
  EXPECT_THAT(values_of(find(plan, StudyPart::attention_grid), "--sequence", true), Contains("16384"));
  EXPECT_THAT(values_of(find(plan, StudyPart::leaderboard), "--card", true), Each("H100 SXM"))
      << "2.5e12 operations an iteration are no second of a laptop";
  for (const StudyPartPlan& part : plan) {
    for (const StudyCommand& command : part.commands) {
      EXPECT_THAT(command.arguments, Not(::testing::IsSupersetOf({"--card", "--device"}))) << name(part.part);
    }
  }
}

TEST(Edition, plans_ranks_that_the_machine_does_not_have) {
  const StudyMachine card = study_machine(*find_datasheet("h100"));
  const StudyPartPlan ranks = find(plan_study(card, like("cs336-2025", "cuda")), StudyPart::ranks);
  EXPECT_THAT(values_of(ranks, "--parallel", true), Each("data=2"));
  EXPECT_THAT(values_of(ranks, "--model", false), IsEmpty());
  StudySettings two = like("cs336-2025", "cuda");
  two.ranks = 2;
  const Plan measured = plan_study(card, two);
  EXPECT_EQ(values_of(find(measured, StudyPart::data_parallel), "--parallel", false),
            std::vector<std::string>{"data=2,overlap=off,bucket=each,all"});
  EXPECT_LE(seconds(measured), 1200);
}

TEST(Edition, has_a_file_for_what_its_course_asks_besides) {
  StudySettings two = like("cs336-2025", "cuda");
  two.ranks = 2;
  const StudyMachine card = study_machine(*find_datasheet("h100"));
  const Plan plan = plan_study(card, two);
  EXPECT_EQ(values(find(plan, StudyPart::collectives), "--ranks"), (std::vector<std::string>{"2", "2", "4", "6"}));
  EXPECT_EQ(values(find(plan, StudyPart::collectives), "--device"),
            (std::vector<std::string>{card.device, "cpu", "cpu", "cpu"}));
  EXPECT_EQ(values(find(plan, StudyPart::sharded_memory), "--shard"),
            std::vector<std::string>{"none,optimizer,gradients,parameters"});
  EXPECT_EQ(values(find(plan, StudyPart::accounting), "--sequence"), std::vector<std::string>{"16384,32768"});
  EXPECT_EQ(values(find(plan, StudyPart::calculations), "--d-model"), std::vector<std::string>{"16384"});
  EXPECT_EQ(values(find(plan, StudyPart::leaderboard), "--sequence"), std::vector<std::string>{"16384"});

  const Plan next = plan_study(study_machine(*find_datasheet("b200")), like("cs336-2026", "cuda"));
  EXPECT_EQ(values(find(next, StudyPart::memory_step), "--context"), (std::vector<std::string>{"512", "128", "2048"}));
  EXPECT_EQ(values(find(next, StudyPart::memory_forward_loop), "--mode"),
            (std::vector<std::string>{"training_forward", "forward", "training_forward", "training_forward"}));
  EXPECT_EQ(values(find(next, StudyPart::memory_forward_loop), "--timeline").back(),
            "{folder}/timelines/memory_forward_loop_2048.csv,{folder}/pictures/memory_forward_loop_2048.svg");
  EXPECT_EQ(values(find(next, StudyPart::calculations), "--context"), std::vector<std::string>{"2048"});
  EXPECT_EQ(values_of(find(next, StudyPart::leaderboard), "--parallel", true), std::vector<std::string>{"data=2"});
}

TEST(Edition, without_a_card_runs_nothing_on_one) {
  const StudyMachine card = study_machine(*find_datasheet("b200"));
  StudySettings settings = like("cs336-2026", "null");
  settings.card = card.name;
  for (const StudyPartPlan& part : plan_study(card, settings)) {
    for (const StudyCommand& command : part.commands) {
      EXPECT_THAT(command.arguments, ::testing::AnyOf(Contains("B200"), Contains("precision"))) << name(part.part);
    }
  }
}

TEST(Edition, that_is_not_known_is_refused_with_those_that_are) {
  EXPECT_THAT(error_of([] { edition_named("cs336-2024", laptop()); }),
              HasSubstr("--like: 'cs336-2024' is no edition of the exercise; did you mean 'cs336-2025'?"));
}

std::string difference(const Plan& noted, const Plan& planned) {
  return error_of([&] { require_same_plan(noted, planned); });
}

TEST(StudyPlan, that_was_noted_must_be_the_one_that_is_made_again) {
  const Plan plan = quick_plan(laptop());
  EXPECT_EQ(difference(plan, quick_plan(laptop())), "");
  Plan other = plan;
  other[1].commands[0].seconds = 99;
  EXPECT_EQ(difference(other, plan), "") << "a prediction runs nothing";
  other[1].commands[0].arguments.emplace_back("--python");
  EXPECT_THAT(difference(other, plan), AllOf(HasSubstr("of the part 'sizes', command 1 is 'bench"),
                                             HasSubstr("--python' with"), HasSubstr("give --restart")));
  other = plan;
  other.back().commands.push_back({{"version", "--output", "../a\x1b[5m"}, 0, 1});
  EXPECT_THAT(difference(other, plan), AllOf(HasSubstr("of the part 'checkpointing', command 2 is 'version"),
                                             HasSubstr("instead of no command line"), Not(HasSubstr("\x1b"))));
  other = plan;
  other[2].commands.pop_back();
  EXPECT_THAT(difference(other, plan), HasSubstr("of the part 'warmup', command"));
  other = plan;
  other[3].commands[0].rows = 1000;
  EXPECT_THAT(difference(other, plan), HasSubstr("with 1000 rows instead of"));
  other = plan;
  std::swap(other[3], other[4]);
  EXPECT_THAT(difference(other, plan), HasSubstr("part 4 is the part 'profile'"));
  other.resize(3);
  EXPECT_THAT(difference(other, plan), HasSubstr("part 4 is no part instead of the part 'contexts'"));
  EXPECT_THAT(difference(plan, other), HasSubstr("instead of no part"));
}

TEST(StudyMachine, is_read_from_the_rows_of_devices) {
  const std::vector<Json> found = {{{"kind", "cuda"}, {"problem", "no driver"}},
                                   {{"kind", "cpu"},
                                    {"name", "a laptop"},
                                    {"total_memory_bytes", 1000},
                                    {"copy", {{"bytes_per_second", 2e10}}},
                                    {"matmul",
                                     {{{"dtype", "fp32"}, {"flops_per_second", 1e11}},
                                      {{"dtype", "tf32"}, {"flops_per_second", 2e11}},
                                      {{"dtype", "bf16"}, {"flops_per_second", 3e11}}}}}};
  const StudyMachine machine = study_machine(found, "cpu");
  EXPECT_EQ(machine.name, "a laptop");
  EXPECT_EQ(machine.memory_bytes, 1000);
  EXPECT_EQ(machine.bytes_per_second, 2e10);
  EXPECT_EQ(machine.flops_per_second.at(DType::bf16), 3e11);
  const auto message = [&](std::string_view device) -> std::string {
    return error_of([&] { study_machine(found, device); });
  };
  EXPECT_THAT(message("cuda"), HasSubstr("no driver"));
  EXPECT_THAT(message("cuda:1"), HasSubstr("do not have 'cuda:1'"));
}

TEST(StudyMachine, refuses_rows_of_other_types) {
  for (const Json& row :
       {Json{{"kind", "cpu"}, {"name", 5}}, Json{{"kind", "cpu"}, {"copy", 5}}, Json{{"kind", "cpu"}, {"problem", 5}},
        Json{{"kind", "cpu"}, {"matmul", {{{"flops_per_second", 1}}}}}, Json{{"kind", "cpu"}, {"matmul", "fast"}}}) {
    EXPECT_THAT(error_of([&] { study_machine({row}, "cpu"); }), HasSubstr("records/devices.jsonl is damaged")) << row;
  }
}

TEST(StudyMachine, of_cuda_is_the_first_gpu) {
  const std::vector<Json> found = {{{"kind", "cuda:0"}, {"name", "first"}, {"total_memory_bytes", 10}},
                                   {{"kind", "cuda:1"}, {"name", "second"}, {"total_memory_bytes", 20}}};
  EXPECT_EQ(study_machine(found, "cuda").name, "first");
  EXPECT_EQ(study_machine(found, "cuda:0").name, "first");
  EXPECT_EQ(study_machine(found, "cuda:1").name, "second");
}

}  // namespace
}  // namespace ridgepoint
