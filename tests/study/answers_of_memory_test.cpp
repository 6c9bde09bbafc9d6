// The answers about the memory of a model: its peak, what it holds there, and what lowers it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "study/answer_rows.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Verdict = StudyClaim::Verdict;
using testing::answer;
using testing::bench_row;
using testing::sentence;

Json moment(std::string_view name, double activation, double optimizer) {
  return {{"name", name},
          {"allocated_bytes", activation + optimizer},
          {"by_category", {{"activation", activation}, {"optimizer_state", optimizer}, {"gradient", 0}}}};
}

Json history(const Json& phases) {
  Json row = bench_row("small", 1e6, "step", "fp32", 100);
  row["memory"] = {{"phases", phases},
                   {"residual_activation", {{"bytes", 262144}, {"formula", "4 B S D"}}},
                   {"largest_allocations",
                    {{{"op", "matmul"},
                      {"module", "lm_head"},
                      {"formula", "4 B S V"},
                      {"block_bytes", 1048576},
                      {"category", "activation"},
                      {"source", "a.cpp:1"}}}}};
  return row;
}

TEST(Answers, name_the_phase_of_the_peak_and_its_parts) {
  const auto peak = [](double forward, double backward) {
    return sentence(
        {{StudyPart::memory_step, {history({moment("forward", forward, 100), moment("backward", backward, 100)})}}},
        "In which phase");
  };
  EXPECT_THAT(peak(300, 700), AllOf(HasSubstr("in the backward phase"),
                                    HasSubstr("activation 700 B (88 %), then optimizer state 100 B (12 %)")));
  EXPECT_THAT(peak(300, 50), HasSubstr("in the forward phase"));
  EXPECT_THAT(peak(10, 20), HasSubstr("The largest part is optimizer state"));
}

TEST(Answers, give_the_residual_activation_and_the_largest_allocations) {
  const StudyRows rows = {{StudyPart::memory_step, {history({moment("forward", 1, 1)})}}};
  EXPECT_EQ(sentence(rows, "How large is one activation"),
            "One activation has 256.0 KiB (262144 bytes): 4 B S D, for 4 x 256 x 64 elements.");
  EXPECT_EQ(
      sentence(rows, "What are the largest"),
      "The largest of small, 4 x 256, fp32 is 1.00 MiB, activation, made by matmul of lm_head at a.cpp:1 (4 B S V).");
}

TEST(Answers, say_where_the_largest_allocations_come_from) {
  Json row = history(Json::array({moment("forward", 1, 1)}));
  row["memory"]["largest_allocations"].push_back(
      {{"module", "layers.3.attn.softmax"}, {"op", "softmax"}, {"phase", "backward"}, {"block_bytes", 524288}});
  row["memory"]["largest_allocations"].push_back({{"category", "workspace"}, {"block_bytes", 1024}});
  EXPECT_THAT(
      sentence({{StudyPart::memory_step, {row}}}, "What are the largest"),
      HasSubstr("Then come 512.0 KiB, made in backward by softmax of layers.3.attn.softmax; 1.00 KiB, workspace, "
                "made by the allocator."));
}

TEST(Answers, take_members_of_any_type) {
  Json row = history(Json::array({moment("forward", 1, 1)}));
  row["memory"]["phases"][0]["by_category"] = {{"activation", "large"}, {"gradient", nullptr}};
  EXPECT_THAT(sentence({{StudyPart::memory_step, {row}}}, "In which phase"), HasSubstr("The largest part is nothing"));
}

TEST(Answers, need_the_name_of_a_model_for_peaks_by_context) {
  Json row = bench_row("small", 1e6, "step", "fp32", 1);
  row.erase("model");
  EXPECT_THAT(sentence({{StudyPart::memory_peaks, {row}}}, "What is the peak by context"),
              HasSubstr("This study cannot say"));
}

// A row whose peak has activations, a workspace, and the rest parameters.
Json peak_row(std::string_view mode, std::string_view dtype, std::int64_t context, double peak, double activation = 100,
              double workspace = 0) {
  Json row = bench_row("small", 1e6, mode, dtype, 1);
  row["context"] = context;
  row["memory_bytes"]["peak_allocated"] = peak;
  row["memory_bytes"]["peak_reserved"] = peak;
  row["peak_by_category"] = {
      {"activation", activation}, {"workspace", workspace}, {"parameter", peak - activation - workspace}};
  return row;
}

TEST(Answers, say_what_grows_with_the_context) {
  const auto grows = [](const Json& last) {
    return sentence({{StudyPart::memory_peaks, {last, peak_row("step", "fp32", 128, 1000)}}},
                    "What is the peak by context");
  };
  EXPECT_EQ(grows(peak_row("step", "fp32", 512, 2000, 900, 200)),
            "From 128 to 512 tokens, 4.00x as many, the peak of a training step of small goes from 1000 B to 1.95 KiB, "
            "2.00x as much: activation +800 B, workspace +200 B.");
  // The answer once named scores as the cause of any growth.
  EXPECT_THAT(grows(peak_row("step", "fp32", 512, 9000, 100, 8000)), HasSubstr("9.00x as much: workspace +7.81 KiB."));
}

TEST(Answers, give_the_peaks_of_both_passes_and_what_does_not_fit) {
  Json too_large = peak_row("step", "fp32", 2048, 1);
  too_large["status"] = "oom";
  too_large["memory_bytes"] = {{"planned_peak", std::int64_t{229} << 30}};
  EXPECT_EQ(sentence({{StudyPart::memory_peaks,
                       {peak_row("forward", "fp32", 128, 1000), peak_row("step", "fp32", 128, 3000),
                        peak_row("forward", "fp32", 2048, 2000, 1100), too_large}}},
                     "What is the peak by context"),
            "From 128 to 2048 tokens, 16x as many, the peak of a forward pass of small goes from 1000 B to 1.95 KiB, "
            "2.00x as much: activation +1000 B. At 128 tokens the peak of a training step of small is 2.93 KiB. At "
            "2048 tokens it runs out of memory, with a planned peak of 229.0 GiB.");
}

TEST(Answers, hold_copies_of_weights_apart_from_activations) {
  Json full = peak_row("training_forward", "fp32", 128, 1000, 400),
       low = peak_row("training_forward", "bf16", 128, 1200, 600);
  const auto cast = [](std::string_view category, std::string_view formula, double size) {
    return Json{{"category", category}, {"op", "cast"}, {"formula", formula}, {"bytes", size}};
  };
  low["memory"]["phases"] = {
      {{"allocated_bytes", 900}, {"groups", {cast("activation", "2 F D", 100)}}},
      {{"allocated_bytes", 1200},
       {"groups",
        {cast("activation", "2 F D", 300), cast("activation", "2 D^2", 100), cast("activation", "2 B S D", 70),
         cast("gradient", "4 D F", 50), cast("gradient", "2 D F", 30)}}}};
  EXPECT_EQ(
      sentence({{StudyPart::memory_peaks, {full, low}}}, "What does mixed precision"),
      "bf16 raises every peak, by 20 % to 20 % (small, 128 tokens, training_forward: low-precision copies of weights "
      "+400 B, activation -200 B).")
      << "in all, the category activation has 200 B more";
}

TEST(Answers, say_whether_mixed_precision_lowers_peaks_and_what_made_the_difference) {
  const auto changes = [](const Json& forward, const Json& step) {
    return sentence({{StudyPart::memory_peaks,
                      {peak_row("forward", "fp32", 128, 1000), forward, peak_row("step", "fp32", 128, 1000), step}}},
                    "What does mixed precision");
  };
  const auto forward = [](double peak, double activation = 100, double workspace = 0) {
    return peak_row("forward", "bf16", 128, peak, activation, workspace);
  };
  const auto step = [](double peak, double activation = 100) {
    return peak_row("step", "bf16", 128, peak, activation);
  };
  EXPECT_THAT(changes(forward(800), step(700)), HasSubstr("lowers every peak, by 20 % to 30 %"));
  EXPECT_THAT(changes(forward(1200), step(1100)), HasSubstr("raises every peak, by 10 % to 20 %"));
  EXPECT_THAT(changes(forward(2500), step(3000)), HasSubstr("raises every peak, by 150 % to 200 %"));
  EXPECT_EQ(changes(forward(1000), step(1000)), "bf16 changes no peak.");
  // The answer once said that activations halve, of rows in which they grew and a workspace made the difference.
  EXPECT_EQ(
      changes(forward(1300, 110, 290), step(700, 100)),
      "bf16 lowers peaks by up to 30 % (small, 128 tokens, step: parameter -300 B). bf16 raises peaks by up to 30 % "
      "(small, 128 tokens, forward: workspace +290 B).");
}

TEST(Answers, compare_published_memory_of_bf16_by_size_alone) {
  Json full = peak_row("forward", "fp32", 256, 1000), low = peak_row("forward", "bf16", 256, 680);
  const auto claim = [&] {
    return answer({{StudyPart::memory_peaks, {full, low}}}, "What does mixed precision").elsewhere.at(0);
  };
  EXPECT_THAT(claim().reason, HasSubstr("Not compared: another size (batch 4, not 64)."));
  full["batch"] = low["batch"] = 64;
  EXPECT_EQ(claim().verdict, Verdict::confirmed);
  low["memory_bytes"]["peak_reserved"] = 900;
  EXPECT_EQ(claim().verdict, Verdict::contradicted);
}

TEST(Answers, give_the_ratio_of_rise_and_fall_and_the_verdict) {
  const auto loop = [](double rise, double fall, std::string_view verdict) {
    Json row = bench_row("small", 1e6, "training_forward", "bf16", 10);
    row["memory"] = {{"sawtooth",
                      {{"rise_ms", rise},
                       {"fall_ms", fall},
                       {"rise_events", 30},
                       {"fall_events", 10},
                       {"rise_steps", 30},
                       {"fall_steps", 25},
                       {"busy_share", 0.5},
                       {"cycles", 3},
                       {"height_bytes", 1000},
                       {"verdict", verdict}}}};
    return answer({{StudyPart::memory_forward_loop, {row}}}, "In repeated forward");
  };
  EXPECT_THAT(loop(10, 1, "host_bound").sentence,
              AllOf(HasSubstr("10 to 1 in time, 3 to 1 in events, and 1.2 to 1 on the axis of pytorch.org/memory_viz"),
                    HasSubstr("host-bound")));
  EXPECT_THAT(loop(1, 1, "compute_bound").sentence, AllOf(HasSubstr("1 to 1 in time"), HasSubstr("compute-bound")));
  EXPECT_EQ(loop(1, 1, "compute_bound").elsewhere.at(0).verdict, Verdict::not_comparable);
  EXPECT_THAT(loop(10, 1, "host_bound").elsewhere.at(0).reason,
              AllOf(HasSubstr("it is 10 to 1 in time, 3 to 1 in events, and 1.2 to 1 on the axis of "
                              "pytorch.org/memory_viz; that axis counts events, and makes rise and fall look equal."),
                    HasSubstr("Not compared: the source does not state its axis.")))
      << "the card has no part in a count of events";
  EXPECT_THAT(loop(1, 1, "host_bound").elsewhere.at(0).reason, Not(HasSubstr("counts events")));
}

TEST(Answers, say_what_a_block_saves) {
  const auto of = [](double largest, Json gradients) {
    Json row = bench_row("small", 1e6, "step", "fp32", 100);
    row["memory"]["block"] = {
        {"name", "layers.6"},
        {"saved_bytes", 1000},
        {"gradient_bytes", std::move(gradients)},
        {"saved",
         {{{"op", "exp"}, {"module", "layers.6.attn.softmax"}, {"formula", "4 B H S^2"}, {"bytes", largest}}}}};
    return answer({{StudyPart::memory_step, {row}}}, "What does one block save");
  };
  EXPECT_EQ(of(600, 512).sentence,
            "layers.6 of small, 4 x 256, fp32 saves 1000 B for backward, 60 % of it in the 1 largest below. Its "
            "gradients have 512 B.");
  EXPECT_THAT(of(600, 512).evidence.front().text, HasSubstr("exp in layers.6.attn.softmax (4 B H S^2): 600 B, 60 %"));
  EXPECT_THAT(of(300, nullptr).sentence, AllOf(HasSubstr("30 % of it"), Not(HasSubstr("gradients"))));
}

TEST(Answers, weigh_checkpointing) {
  const auto policies = [](double block_ms, double block_peak) {
    Json none = bench_row("small", 1e6, "step", "fp32", 100);
    Json block = bench_row("small", 1e6, "step", "fp32", block_ms);
    none["checkpoint"] = "none";
    block["checkpoint"] = "block";
    none["memory_bytes"]["peak_allocated"] = 1000;
    block["memory_bytes"]["peak_allocated"] = block_peak;
    return sentence({{StudyPart::checkpointing, {none, block}}}, "What does checkpointing save");
  };
  EXPECT_THAT(
      policies(130, 600),
      AllOf(HasSubstr("'block' has the lowest peak of small, 4 x 256, fp32: 600 B instead of 1000 B (40 % less)"),
            HasSubstr("In return a training step is 1.30x as long")));
  EXPECT_THAT(policies(100, 600), HasSubstr("so the noise hides which is faster"));
  EXPECT_THAT(policies(80, 600), HasSubstr("1.25x as fast")) << "which is no noise";
  EXPECT_THAT(policies(130, 1100), HasSubstr("No policy lowers the peak"));
}

Json segments_row(std::string_view policy, Json blocks, double gib, double ms) {
  Json row = bench_row("small", 1e6, "forward_backward", "bf16", ms);
  row["checkpoint"] = policy;
  row["checkpoint_segment"] = std::move(blocks);
  row["memory_bytes"]["peak_allocated"] = gib * (std::int64_t{1} << 30);
  return row;
}

TEST(Answers, name_the_best_segment_and_its_neighbours) {
  const auto answer_of = [](double of_two, double of_four) {
    return sentence({{StudyPart::checkpointing,
                      {segments_row("none", nullptr, 30, 100), segments_row("block", 4, of_four, 130),
                       segments_row("block", 1, 20, 120), segments_row("block", 2, of_two, 125)}}},
                    "How many blocks should a checkpointed segment have");
  };
  EXPECT_THAT(
      answer_of(18, 19),
      HasSubstr("With 'block' the best of 3 segments that fit has 2 blocks (18.0 GiB, 125.0 ms); its neighbours "
                "have 1 block (20.0 GiB, 120.0 ms) and 4 blocks (19.0 GiB, 130.0 ms)"));
  EXPECT_THAT(answer_of(21, 22), HasSubstr("has 1 block (20.0 GiB, 120.0 ms); its neighbour has 2 blocks (21.0"));
  EXPECT_THAT(answer_of(21, 22), Not(HasSubstr("nested")));
  EXPECT_THAT(answer_of(19.9, 22), HasSubstr("the best of 3 segments that fit has 1 block"))
      << "half a percent more, in less time";
}

TEST(Answers, say_what_checkpoints_need_where_a_run_without_has_no_room) {
  Json none = segments_row("none", nullptr, 1, 100);
  none["status"] = "oom";
  none["memory_bytes"] = {{"planned_peak", std::int64_t{240} << 30}};
  Json eight = none;
  eight["checkpoint"] = "block";
  eight["checkpoint_segment"] = 8;
  const StudyRows rows = {
      {StudyPart::checkpointing, {none, segments_row("block", 1, 20, 120), segments_row("block", 2, 22, 125), eight}}};
  EXPECT_EQ(sentence(rows, "What does checkpointing save"),
            "Without checkpoints a forward and backward pass of small, 4 x 256, bf16 runs out of memory, with a "
            "planned peak of 240.0 GiB; 'block with 1 block a segment' needs 20.0 GiB.");
  EXPECT_THAT(sentence(rows, "How many blocks"),
              AllOf(HasSubstr("With 'block' the best of 2 segments that fit has 1 block"),
                    HasSubstr("Segments of 8 blocks do not fit.")));
}

Json planned_row(Json row, double predicted_ms) {
  row["command"] = "plan";
  row["device"] = {{"kind", "null"}, {"name", "H100 SXM"}};
  for (const char* key : {"time_ms", "phase_ms", "timing"}) row[key] = nullptr;
  row["predicted_ms"] = predicted_ms;
  row["predicted_low_ms"] = 0.9 * predicted_ms;
  row["predicted_high_ms"] = 1.6 * predicted_ms;
  row["capacity_bytes"] = std::int64_t{80} << 30;
  row["fits"] = true;
  return row;
}

TEST(Answers, take_times_from_measured_rows_alone) {
  const Json measured = bench_row("small", 1e6, "forward", "fp32", 100);
  const Json planned = planned_row(bench_row("large", 4e6, "forward", "fp32", 100), 900);
  const StudyRows both = {{StudyPart::sizes, {measured, planned}}};
  EXPECT_THAT(sentence(both, "How long do"), AllOf(HasSubstr("small takes 100.0 ms"), Not(HasSubstr("large"))));
  for (const StudyAnswer& each : answer_questions({{StudyPart::sizes, {planned}}}))
    EXPECT_FALSE(each.question.starts_with("How long do")) << "the plans have their own answer";
  const StudyAnswer plans = answer(both, "What is planned instead of measured");
  EXPECT_THAT(plans.sentence, HasSubstr("1 row of sizes is planned for H100 SXM, not measured."));
  EXPECT_THAT(plans.evidence.front().text, HasSubstr("900.0 ms (810.0 ms to 1440 ms)"));
  const std::vector<StudyAnswer> all = answer_questions({{StudyPart::sizes, {measured}}});
  EXPECT_NE(all.back().topic, "Plans") << "nothing is planned";
}

TEST(Answers, count_the_rows_whose_planned_memory_is_the_measured_one) {
  Json exact = bench_row("small", 1e6, "forward", "fp32", 100), off = exact;
  exact["memory_bytes"] = {{"peak_allocated", 1000}, {"planned_peak", 1000}};
  off["memory_bytes"] = {{"peak_allocated", 1000}, {"planned_peak", 1015}};
  Json planned = planned_row(exact, 900), warned = planned;
  warned["predicted_problem"] = "No run like this has been measured.";
  const StudyAnswer both = answer({{StudyPart::sizes, {exact, off, planned, warned}}}, "What is planned");
  EXPECT_THAT(both.sentence, HasSubstr("The planned peak is the measured one in 1 of 2 measured rows; the largest "
                                       "difference is 1.5 %. A planned time"));
  EXPECT_THAT(both.sentence, HasSubstr("1 of the 2 rows below, marked ~: No run like this has been measured."));
  EXPECT_THAT(both.evidence.at(0).text, HasSubstr("checkpoint : 900.0 ms (810.0 ms to 1440 ms)"));
  EXPECT_THAT(both.evidence.at(1).text, HasSubstr("checkpoint  ~: 900.0 ms (810.0 ms to 1440 ms)"));
  EXPECT_THAT(answer({{StudyPart::sizes, {exact, planned}}}, "What is planned").sentence,
              HasSubstr("The planned peak is the measured one in 1 of 1 measured rows. "));
}

TEST(Answers, take_memory_from_planned_rows_where_nothing_was_measured) {
  const auto planned = [](Json row, double ms) { return planned_row(std::move(row), ms); };
  StudyRows rows = {
      {StudyPart::checkpointing,
       {planned(segments_row("none", nullptr, 30, 1), 100), planned(segments_row("block", 1, 20, 1), 125)}}};
  EXPECT_THAT(
      sentence(rows, "What does checkpointing save"),
      AllOf(HasSubstr("20.0 GiB instead of 30.0 GiB"), HasSubstr("takes 125.0 ms instead of 100.0 ms by the plan"),
            Not(HasSubstr("nan")), HasSubstr("These figures are planned for H100 SXM, not measured.")));
  rows[StudyPart::checkpointing][0]["predicted_ms"] = nullptr;
  EXPECT_THAT(answer(rows, "What does checkpointing save").evidence.at(0).text,
              HasSubstr("none: no predicted time, peak 30.0 GiB"));
}

Json statistics(double ms) {
  std::vector<double> samples;
  for (int i = -4; i <= 4; ++i) samples.push_back(ms * (1 + 0.001 * i));
  return {{"median", ms}, {"samples", samples}};
}

Json call(std::string_view attention, std::int64_t sequence, double ms, double saved,
          std::string_view compile = "off") {
  return {{"schema", 1},
          {"command", "attention"},
          {"status", "ok"},
          {"attention", attention},
          {"compile", compile},
          {"dtype", "fp32"},
          {"batch", 8},
          {"context", sequence},
          {"model", {{"d_model", 64}, {"heads", 1}}},
          {"device", {{"kind", "cuda"}, {"name", "NVIDIA H200"}}},
          {"forward_ms", statistics(ms)},
          {"backward_ms", statistics(2 * ms)},
          {"memory_bytes", {{"before_backward", saved}, {"peak_allocated", 2 * saved}}}};
}

TEST(Answers, say_what_the_memory_of_attention_grows_with) {
  const auto grid = [](double first, double last, std::int64_t longest = 16384) {
    return answer(
        {{StudyPart::attention_grid, {call("naive", longest, 16, last), call("naive", longest / 2, 4, first)}}},
        "How do the time of attention");
  };
  const double matrix = 4.0 * 8 * 16384 * 16384;
  EXPECT_EQ(grid(0.75 * matrix, 3 * matrix).sentence,
            "From 8192 to 16384 tokens (d 64) the time grows with the sequence to the power 2.00 and the memory to the "
            "power 2.00. At 16384 tokens it keeps 24.0 GiB (3.0 matrices of scores).");
  EXPECT_EQ(grid(0.75 * matrix, 3 * matrix).elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_EQ(grid(matrix, 2 * matrix).elsewhere.at(0).verdict, Verdict::contradicted);
  EXPECT_THAT(grid(matrix / 1000, matrix / 500).sentence, HasSubstr("(0.002 matrices of scores)"));
  EXPECT_THAT(grid(100, 400, 1024).elsewhere.at(0).reason, HasSubstr("another size (context 1024, not 16384)"));
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100)}}}, "How do the time of attention"),
              HasSubstr("Only one sequence length ran"));
}

TEST(Answers, say_where_attention_ran_out_of_memory) {
  Json oom = call("naive", 16384, 1, 1);
  oom["status"] = "oom";
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100), oom}}}, "Where does attention"),
              HasSubstr("does not fit is 16384 tokens (d 64)"));
  oom["device"]["memory_limit_bytes"] = std::int64_t{1} << 30;
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {oom}}}, "Where does attention"),
              HasSubstr("does not fit into 1.00 GiB is 16384 tokens"));
  const auto longest = [&](std::string_view confirmed) {
    const Json limit = {{"attention", "naive"},
                        {"memory_bytes", 1073741824},
                        {"longest_sequence", 900},
                        {"next_sequence", 901},
                        {"peak_allocated_bytes", 1000},
                        {"confirmed", confirmed},
                        {"remark", confirmed == "no" ? "sequence 900 did not fit; libraries hold 1 GiB" : ""}};
    return answer({{StudyPart::attention_grid, {call("naive", 1024, 1, 100)}}, {StudyPart::attention_limit, {limit}}},
                  "Where does attention");
  };
  EXPECT_THAT(longest("yes").sentence,
              AllOf(HasSubstr("No row of the grid ran out of memory: 1 fit."),
                    HasSubstr("fits into 1.00 GiB by the plan is 900 tokens for naive attention; runs of 900 and 901 "
                              "tokens agree with it.")));
  EXPECT_THAT(longest("no").sentence, HasSubstr("in a run, sequence 900 did not fit."));
  EXPECT_THAT(longest("no").evidence.at(0).text,
              HasSubstr("by the plan 900 tokens fit (1000 B), 901 do not; in a run, sequence 900 did not fit"));
  EXPECT_THAT(longest("").sentence, HasSubstr("no run has tried it"));
}

TEST(Answers, call_only_rows_fitting_that_ran) {
  Json failed = call("naive", 2048, 1, 1);
  failed["status"] = "error";
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100), failed}}}, "Where does attention"),
              HasSubstr("1 fit, and 1 failed otherwise"));
  const Json limit = {{"attention", "naive"}, {"longest_sequence", 900}, {"next_sequence", 901}};
  EXPECT_THAT(sentence({{StudyPart::attention_limit, {limit}}}, "Where does attention"),
              StartsWith("The longest that fits by the plan is 900 tokens"));
}

TEST(Answers, compare_running_out_of_memory_on_as_much_memory) {
  Json row = call("naive", 16384, 1, 100);
  const auto claim = [&] {
    return answer({{StudyPart::attention_grid, {row}}}, "Where does attention").elsewhere.at(0);
  };
  row["device"]["total_memory_bytes"] = 150e9;
  EXPECT_THAT(claim().reason, HasSubstr("another memory (139.7 GiB, not 20 GB)"));
  row["device"]["memory_limit_bytes"] = 20e9;
  EXPECT_EQ(claim().verdict, Verdict::contradicted);
  row["status"] = "oom";
  EXPECT_EQ(claim().verdict, Verdict::confirmed);
}

TEST(Answers, compare_the_account_with_the_measurement) {
  const auto account = [](double predicted) {
    const auto tensor = [&](std::string_view component, std::string_view shape, double size) {
      return Json{{"moment", "before backward"},  {"attention", "naive"},   {"sequence", 1024},
                  {"component", component},       {"shape", shape},         {"formula", "4 B"},
                  {"predicted_bytes", predicted}, {"measured_bytes", size}, {"allocated_bytes", 200}};
    };
    return sentence({{StudyPart::accounting, {tensor("q", "B H S D", 100), tensor("scores", "B H S S", 100)}}},
                    "What does attention allocate");
  };
  EXPECT_THAT(account(100),
              AllOf(HasSubstr("50 % of it in 1 matrix of scores"), HasSubstr("the bytes of the allocator exactly")));
  EXPECT_THAT(account(90), HasSubstr("10 % off the bytes of the allocator"));
}

TEST(Answers, confirm_published_memory_of_attention_only_by_its_figure) {
  const auto claim = [](double sequence, double scores) {
    const auto tensor = [&](std::string_view component, std::string_view shape, double size) {
      return Json{{"moment", "before backward"},
                  {"attention", "naive"},
                  {"dtype", "fp32"},
                  {"batch", 8},
                  {"d_model", 64},
                  {"sequence", sequence},
                  {"component", component},
                  {"shape", shape},
                  {"predicted_bytes", size},
                  {"measured_bytes", size},
                  {"allocated_bytes", 3 * size}};
    };
    return answer({{StudyPart::accounting,
                    {tensor("scores", "B H S S", scores), tensor("exponentials", "B H S S", scores),
                     tensor("weights", "B H S S", scores)}}},
                  "What does attention allocate")
        .elsewhere.at(0);
  };
  const double matrix = 4.0 * 8 * 16384 * 16384;
  EXPECT_THAT(claim(16384, matrix).text, HasSubstr("keeps 25041.3 MiB before backward at 16,384 tokens (d 64)"));
  EXPECT_EQ(claim(16384, 1.02 * matrix).verdict, Verdict::confirmed);
  EXPECT_EQ(claim(16384, 0.9 * matrix).verdict, Verdict::contradicted);
  EXPECT_EQ(claim(1024, matrix / 256).verdict, Verdict::not_comparable);
  EXPECT_THAT(claim(1024, matrix / 256).reason, HasSubstr("another size (sequence 1024"));
}

TEST(Answers, weigh_the_memory_of_variants_against_their_time) {
  const auto ladder = [](double flash_ms) {
    return sentence({{StudyPart::ladder,
                      {call("naive", 256, 1, 10), call("naive", 1024, 10, 1000), call("flash", 1024, flash_ms, 100)}}},
                    "What do variants save");
  };
  EXPECT_THAT(ladder(5), AllOf(HasSubstr("At 1024 tokens naive"), HasSubstr("10x less"), HasSubstr("2.00x as fast")));
  EXPECT_THAT(ladder(20), HasSubstr("2.00x as long"));
}

TEST(Answers, need_a_sequence_to_compare_variants) {
  for (const Json& context : {Json(-1), Json(0), Json(nullptr), Json("long")}) {
    Json row = call("naive", 256, 1, 10);
    row["context"] = context;
    const std::string found = sentence({{StudyPart::ladder, {row}}}, "What do variants save");
    EXPECT_EQ(found.starts_with("This study cannot say"), context != 0) << context;
  }
  Json huge = call("naive", 256, 1, 10);
  huge["context"] = 1e300;
  EXPECT_THAT(sentence({{StudyPart::ladder, {huge}}}, "What do variants save"), HasSubstr("At 1e+300 tokens"));
}

TEST(Answers, say_how_the_memory_of_tiled_attention_grows) {
  const auto flash = [](double last) {
    return sentence({{StudyPart::flash, {call("flash", 1024, 1, 100), call("flash", 4096, 9, last)}}},
                    "How far does tiled");
  };
  EXPECT_THAT(flash(400), AllOf(HasSubstr("At 4096 tokens (d 64, fp32)"), HasSubstr("to the power 1.00.")));
  EXPECT_THAT(flash(4.0 * 8 * 4096 * 4096), HasSubstr(", 1 of the size of one matrix of scores."));
}

TEST(Answers, compare_tiled_attention_with_what_stores_its_scores) {
  const auto rows = [](double tiled_ms) {
    return StudyRows{{StudyPart::flash,
                      {call("flash", 1024, 1, 100), call("composite", 1024, 2, 5000),
                       call("flash", 4096, tiled_ms, 400), call("composite", 4096, 30, 80000)}}};
  };
  const char* question = "How much faster is tiled attention";
  EXPECT_THAT(
      sentence(rows(10), question),
      AllOf(
          HasSubstr("In fp32 (d 64), at 4096 tokens, the longest at which both were measured, forward and backward are "
                    "3.00x as fast"),
          HasSubstr("keep 400 B instead of 78.1 KiB")));
  EXPECT_THAT(sentence(rows(60), question), HasSubstr("2.00x as long"));
  EXPECT_THAT(sentence(rows(10), "How far does tiled attention reach"),
              AllOf(HasSubstr("it keeps 400 B"), HasSubstr("to the power 1.00")))
      << "of the tiled rows alone";
}

TEST(Answers, say_what_ran_where_there_is_no_tiled_kernel) {
  Json tiled = call("flash", 1024, 1, 100);
  tiled["attention_fallback"] = "recompute";
  const StudyRows rows = {{StudyPart::flash, {tiled, call("composite", 1024, 2, 5000)}},
                          {StudyPart::ladder, {tiled, call("naive", 1024, 10, 1000)}}};
  EXPECT_EQ(sentence(rows, "How far does tiled attention reach"),
            "This device has no tiled kernel for these calls (d 64, fp32), so recompute attention ran instead.");
  EXPECT_THAT(sentence(rows, "What do variants save"), HasSubstr("flash attention (ran as recompute) 100 B"));
  for (const StudyAnswer& each : answer_questions(rows))
    EXPECT_THAT(each.question, Not(HasSubstr("How much faster is tiled attention")));
}

TEST(Answers, list_planned_attention_that_no_run_has_timed) {
  const auto planned = [](std::string_view attention, std::string_view status, const Json& memory) {
    Json row = call(attention, 65536, 1, 1);
    row["mode"] = "forward_backward";
    row["device"] = {{"kind", "null"}, {"name", "H100 SXM"}};
    row["status"] = status;
    row["memory_bytes"] = memory;
    row["error"] = {{"requested_bytes", std::int64_t{16} << 30}};
    return row;
  };
  const StudyRows rows = {{StudyPart::flash,
                           {call("flash", 1024, 1, 100), planned("flash", "ok", {{"peak_allocated", 3145728}}),
                            planned("composite", "oom", {{"planned_peak", std::int64_t{64} << 30}})}},
                          {StudyPart::accounting, {planned("naive", "oom", nullptr)}}};
  const StudyAnswer plans = answer(rows, "What is planned");
  EXPECT_EQ(plans.sentence, "3 rows of accounting, flash are planned for H100 SXM, not measured.");
  ASSERT_EQ(plans.evidence.size(), 2) << "rows of tensors have no peak of a run";
  EXPECT_EQ(plans.evidence[0].text, "flash attention, 8 x 65536, d 64, fp32, forward_backward, compile off: 3.00 MiB");
  EXPECT_THAT(plans.evidence[1].text,
              HasSubstr("composite attention, 8 x 65536, d 64, fp32, forward_backward, compile off: 64.0 GiB, out of "
                        "memory at a request of 16.0 GiB"));
}

TEST(Answers, say_what_compiling_attention_gains) {
  const auto compiled = [](double first, double last) {
    return answer({{StudyPart::compiled_attention,
                    {call("composite", 256, 10, 1), call("composite", 256, first, 1, "full"),
                     call("composite", 1024, 10, 1), call("composite", 1024, last, 1, "full")}}},
                  "What does compiling attention");
  };
  EXPECT_THAT(compiled(5, 5).sentence, HasSubstr("forward is 2.00x as fast (faster in every row)"));
  EXPECT_THAT(compiled(5, 4.5).elsewhere.at(0).reason,
              AllOf(HasSubstr("Here it is 2.16x to 2.28x."), HasSubstr("another card (NVIDIA H200, not RTX A4500)"),
                    HasSubstr("another size (d_model 64, not 16)")));
  Json short_row = call("composite", 256, 10, 1);
  short_row["timing"] = {{"verdict", "throttled"}};
  const StudyAnswer throttled = answer({{StudyPart::compiled_attention,
                                         {short_row, call("composite", 256, 5, 1, "full"),
                                          call("composite", 1024, 10, 1), call("composite", 1024, 5, 1, "full")}}},
                                       "What does compiling attention");
  EXPECT_THAT(throttled.sentence, HasSubstr("(~ throttled)"));
  EXPECT_THAT(throttled.elsewhere.at(0).reason, Not(HasSubstr("throttled"))) << "of rows that the claim leaves out";
  EXPECT_THAT(compiled(20, 20).sentence, HasSubstr("slower in every row"));
  EXPECT_THAT(compiled(20, 5).sentence, HasSubstr("faster in 1 of 2 rows and slower in 1, by the intervals"));
  EXPECT_THAT(compiled(10, 10).sentence, HasSubstr("faster in 0 of 2 rows and slower in 0"));
}

}  // namespace
}  // namespace ridgepoint
