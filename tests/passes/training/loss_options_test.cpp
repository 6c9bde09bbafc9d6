// Targets that are left out of the loss, and the square of the log-sum-exps that is added to it: against the loss in
// double precision, for every way to compute it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr double kZ = 0.01;

TransformerConfig with_ignored_targets() {
  TransformerConfig config{"custom", 50, 8, 64, 64, 1, 4};
  config.ignores_targets = true;
  return config;
}

// Where the targets of a run are ignored.
void ignore(Program& program, std::size_t from, std::size_t step = 1) {
  HostTensor targets = program.read_input("targets");
  for (std::size_t i = from; i < targets.as<std::int64_t>().size(); i += step)
    targets.as<std::int64_t>()[i] = kIgnoredTarget;
  program.write_input("targets", targets);
}

Program program_of(CompileOptions options, const char* device = "cpu") {
  options.mode = Mode::forward_backward;
  options.keep.results = true;
  options.verify = true;
  const Transformer workload(with_ignored_targets(), 2);
  Program program(workload.build(), open_device(device), {.compile = std::move(options)});
  initialise(program, workload, 5);
  return program;
}

// The mean over the targets that are not ignored, from the logits.
double loss_of(std::span<const float> logits, std::span<const std::int64_t> targets, double z) {
  const std::size_t vocabulary = logits.size() / targets.size();
  double sum = 0, count = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == kIgnoredTarget) continue;
    double exponentials = 0;
    for (std::size_t i = 0; i < vocabulary; ++i) exponentials += std::exp(double{logits[row * vocabulary + i]});
    const double log_sum_exp = std::log(exponentials);
    sum +=
        log_sum_exp - logits[row * vocabulary + static_cast<std::size_t>(targets[row])] + z * log_sum_exp * log_sum_exp;
    ++count;
  }
  return sum / std::max(count, 1.0);
}

double loss_by_logits(const Program& program, double z) {
  const HostTensor logits = program.read_output("logits");
  const HostTensor targets = program.read_input("targets");
  std::vector<float> elements(static_cast<std::size_t>(logits.type.elements()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::byte* element = logits.data.data() + i * size_bytes(logits.type.dtype);
    elements[i] = static_cast<float>(load_element(logits.type.dtype, element));
  }
  return loss_of(elements, targets.as<std::int64_t>(), z);
}

float loss_in(const Program& program) { return program.read_output("loss").as<float>()[0]; }

class LossOptions : public ::testing::TestWithParam<Compile> {};

TEST_P(LossOptions, leave_out_ignored_targets_and_add_squares_of_log_sum_exps) {
  for (const double z : {0.0, kZ}) {
    Program program = program_of({.level = GetParam(), .z_loss = z});
    ignore(program, 1, 3);
    program.run();
    const double expected = loss_by_logits(program, z);
    EXPECT_NEAR(loss_in(program), expected, 1e-5 * expected) << z;
    Program reference = program_of({.z_loss = z}, "reference");
    ignore(reference, 1, 3);
    reference.run();
    for (const Output& output : program.graph().outputs()) {
      EXPECT_LT(testing::relative_error(program.read_output(output.name), reference.read_output(output.name)), 2e-5)
          << output.name;
    }
  }
}

TEST_P(LossOptions, are_those_of_the_whole_loss_in_chunks_of_tokens) {
  Program whole = program_of({.level = GetParam(), .loss_chunk_rows = 0, .z_loss = kZ});
  Program chunked = program_of({.level = GetParam(), .loss_chunk_rows = 3, .z_loss = kZ});
  for (Program* program : {&whole, &chunked}) {
    ignore(*program, 1, 3);
    program->run();
  }
  for (const Output& output : whole.graph().outputs()) {
    EXPECT_LT(testing::relative_error(chunked.read_output(output.name), whole.read_output(output.name)), 2e-6)
        << output.name;
  }
}

TEST_P(LossOptions, read_low_logits) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    Program program = program_of({.precision = precision, .level = GetParam(), .z_loss = kZ});
    ignore(program, 0, 2);
    program.run();
    const double expected = loss_by_logits(program, kZ);
    EXPECT_NEAR(loss_in(program), expected, 1e-2 * expected) << name(precision);
  }
}

TEST_P(LossOptions, give_a_batch_without_targets_neither_loss_nor_gradients) {
  Program program = program_of({.level = GetParam(), .z_loss = kZ});
  ignore(program, 0);
  program.run();
  EXPECT_EQ(loss_in(program), 0);
  for (const Output& output : program.graph().outputs()) {
    if (output.role != OutputRole::gradient) continue;
    const HostTensor gradient = program.read_output(output.name);
    EXPECT_TRUE(std::ranges::all_of(gradient.as<float>(), [](float x) { return x == 0; })) << output.name;
  }
}

// Two micro-batches with 1 and 8 targets: each has half of the weight.
TEST_P(LossOptions, take_the_mean_of_the_means_of_micro_batches) {
  const TransformerConfig config = with_ignored_targets();
  const Transformer workload(config, 1);
  Program program(
      workload.build(), open_device("cpu"),
      {.compile = {.mode = Mode::forward_backward, .level = GetParam(), .keep = {.results = true}, .accumulate = 2}});
  initialise(program, workload, 5);
  HostTensor targets = program.read_input("targets");
  const std::span<std::int64_t> all = targets.as<std::int64_t>();
  std::fill(all.begin() + 1, all.begin() + config.context, kIgnoredTarget);
  program.write_input("targets", targets);
  program.run();
  const HostTensor logits = program.read_output("logits");
  const std::size_t half = logits.as<float>().size() / 2;
  const double first = loss_of(logits.as<float>().first(half), all.first(all.size() / 2), 0);
  const double second = loss_of(logits.as<float>().subspan(half), all.subspan(all.size() / 2), 0);
  EXPECT_NEAR(loss_in(program), (first + second) / 2, 1e-5 * second);
}

INSTANTIATE_TEST_SUITE_P(levels, LossOptions, ::testing::ValuesIn(kAllCompiles));

TEST(IgnoredTargets, are_the_only_indices_outside_the_vocabulary) {
  Program program = program_of({});
  HostTensor targets = program.read_input("targets");
  for (const std::int64_t index : {-1, -99, 50}) {
    targets.as<std::int64_t>()[3] = index;
    EXPECT_THAT(error_of([&] { program.write_input("targets", targets); }),
                HasSubstr(fmt::format("'targets' is {}; indices must be from 0 to 49, or -100", index)));
  }
  targets.as<std::int64_t>()[3] = kIgnoredTarget;
  program.write_input("targets", targets);
  EXPECT_TRUE(program.bind_input("targets", targets.data.data()));
}

TEST(IgnoredTargets, are_refused_by_a_model_that_does_not_ask_for_them) {
  TransformerConfig config = with_ignored_targets();
  config.ignores_targets = false;
  Program program(build_transformer(config, 1), open_device("cpu"), {.compile = {.mode = Mode::forward_backward}});
  HostTensor targets = program.read_input("targets");
  targets.as<std::int64_t>()[0] = kIgnoredTarget;
  EXPECT_THAT(error_of([&] { program.write_input("targets", targets); }), HasSubstr("indices must be from 0 to 49"));
}

TEST(IgnoredTargets, are_not_among_the_targets_that_a_seed_makes) {
  Program program = program_of({});
  const HostTensor made = program.read_input("targets");
  const auto targets = made.as<std::int64_t>();
  EXPECT_GE(*std::ranges::min_element(targets), 0);
  EXPECT_GT(*std::ranges::max_element(targets), 0);
}

TEST(ZLoss, is_refused_below_0) {
  for (const double z : {-1.0, std::nan("")}) {
    EXPECT_THAT(error_of([&] { program_of({.z_loss = z}); }), HasSubstr("the factor of the z-loss is at least 0"));
  }
}

}  // namespace
}  // namespace ridgepoint
