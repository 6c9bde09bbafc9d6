// Parameters in two halves: every optimizer makes the bits that it makes of fp32 parameters with a low copy.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "passes/graph_lines.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TensorType kWeight{DType::fp32, {4, 256}};

// Of one weight, which a product reads in bf16. An output is the weight itself where `is_whole`, which keeps it fp32.
Graph step_of(const OptimizerOptions& options, bool is_whole) {
  Graph graph;
  const auto scalar = [&](const char* name) { return input(graph, name, {DType::fp32, {}}, Role::data); };
  const Value weight = input(graph, "weight", kWeight, Role::parameter);
  const Value x = input(graph, "x", {DType::bf16, {2, 4}}, Role::data);
  graph.add_output("y", matmul(graph, x, cast(graph, weight, DType::bf16)));
  if (is_whole) graph.add_output("whole", weight);
  UpdateOperands operands{.step = scalar("step"), .learning_rate = scalar("rate"), .parameter = weight};
  operands.gradient = input(graph, "gradient", kWeight, Role::data);
  operands.guard = UpdateGuard{scalar("factor"), scalar("skip")};
  for (const OptimizerState& one : states_of(options))
    operands.states.push_back(input(graph, std::string(one.name), *state_type(one.type, kWeight), Role::state));
  graph.set_phase(Phase::optimizer);
  const std::vector<Value> updated = optimizer_step(graph, options, operands);
  graph.add_update(weight, updated[0]);
  for (std::size_t i = 1; i < updated.size(); ++i) graph.add_update(operands.states[i - 1], updated[i]);
  return graph;
}

HostTensor scalar_tensor(float value) {
  HostTensor tensor({DType::fp32, {}});
  tensor.as<float>()[0] = value;
  return tensor;
}

// Every fourth number lies halfway between two bf16 numbers; the last ones are special.
HostTensor weights() {
  HostTensor tensor(kWeight);
  const std::span<float> values = tensor.as<float>();
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const std::uint32_t low = i % 4 == 0 ? 0x8000U : i * 40503U & 0xFFFFU;
    values[i] = std::bit_cast<float>((0x3C00U + i * 7U % 0x300U) << 16U | (i % 3 == 0 ? 0x80000000U : 0U) | low);
  }
  const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-40F, -std::numeric_limits<float>::max()};
  std::ranges::copy(special, values.end() - std::ssize(special));
  return tensor;
}

Program program_of(const OptimizerOptions& options, bool is_whole, const std::string& device) {
  Program program(step_of(options, is_whole), open_device(device), {.compile = {.level = Compile::fuse}});
  HostTensor x({DType::fp32, {2, 4}});
  std::ranges::copy(std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0}, x.as<float>().begin());
  program.write_input("x", convert(x, DType::bf16));
  program.write_input("weight", weights());
  program.write_input("rate", scalar_tensor(0.01F));
  program.write_input("factor", scalar_tensor(0.5F));
  return program;
}

void run_step(Program& program, int step, bool skips) {
  program.write_input("step", scalar_tensor(static_cast<float>(step)));
  program.write_input("skip", scalar_tensor(skips ? 1.0F : 0.0F));
  program.write_random("gradient", {.deviation = 1}, static_cast<std::uint64_t>(step));
  program.run();
  program.synchronize();
}

std::vector<std::byte> bytes_of(const Program& program, const StatePart& part) {
  std::vector<std::byte> bytes(part.bytes());
  program.read_part(part, bytes);
  return bytes;
}

// The bits, except those of NaN: the reference device knows one.
void expect_same(const HostTensor& found, const HostTensor& expected, const std::string& where) {
  ASSERT_EQ(found.type, expected.type);
  const std::size_t bytes = size_bytes(found.type.dtype);
  for (std::size_t at = 0; at < found.data.size(); at += bytes) {
    if (std::memcmp(found.data.data() + at, expected.data.data() + at, bytes) == 0) continue;
    const double a = load_element(found.type.dtype, found.data.data() + at);
    const double b = load_element(found.type.dtype, expected.data.data() + at);
    ASSERT_TRUE(std::isnan(a) && std::isnan(b)) << where << " at byte " << at << ": " << a << ", not " << b;
  }
}

void expect_same_state(const Program& found, const Program& expected, const std::string& where) {
  const std::vector<StatePart> parts = expected.state_parts();
  ASSERT_EQ(found.state_parts().size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const StatePart part = found.state_parts()[i];
    ASSERT_EQ(part.name, parts[i].name);
    EXPECT_EQ(part.stored, parts[i].stored) << part.name;
    const HostTensor by_name = found.read_input(part.name);
    EXPECT_EQ(bytes_of(found, part), by_name.data) << part.name << where;
    expect_same(by_name, expected.read_input(part.name), part.name + where);
  }
}

bool is_split(const Program& program) {
  const std::optional<Value> weight = program.graph().find_input("weight");
  return program.graph().type(*weight).dtype == DType::bf16 && program.graph().find_input("rest.weight").has_value();
}

struct SplitParameters : ::testing::TestWithParam<const char*> {
  // All optimizers, scheduled, and with the state that only a hyperparameter adds.
  static std::vector<OptimizerOptions> optimizers() {
    std::vector<OptimizerOptions> all;
    for (const Optimizer kind : kAllOptimizers) {
      OptimizerOptions options{.kind = kind, .hyperparameters = {{"weight_decay", 0.05}}, .scheduled = true};
      all.push_back(options);
      if (!options.find("momentum")) continue;
      options.hyperparameters.push_back({"momentum", 0.9});
      all.push_back(options);
    }
    return all;
  }
};

TEST_P(SplitParameters, train_as_fp32_parameters_with_every_optimizer) {
  for (const OptimizerOptions& options : optimizers()) {
    SCOPED_TRACE(name(options.kind));
    Program split = program_of(options, false, GetParam()), whole = program_of(options, true, GetParam());
    ASSERT_TRUE(is_split(split));
    ASSERT_FALSE(is_split(whole));
    EXPECT_EQ(split.read_input("weight").data, weights().data) << "as written";
    for (int step = 1; step <= 4; ++step) {
      run_step(split, step, step == 3);
      run_step(whole, step, step == 3);
      expect_same(split.read_output("y"), whole.read_output("y"), "y");
      expect_same_state(split, whole, " in step " + std::to_string(step));
    }
    EXPECT_NE(split.read_input("weight").data, weights().data);
  }
}

TEST_P(SplitParameters, go_on_from_a_state_of_either_form) {
  const OptimizerOptions options{.hyperparameters = {{"weight_decay", 0.05}}, .scheduled = true};
  for (const bool from_whole : {false, true}) {
    Program first = program_of(options, from_whole, GetParam());
    run_step(first, 1, false);
    Program by_parts = program_of(options, false, GetParam()), by_tensors = program_of(options, true, GetParam());
    for (const StatePart& part : first.state_parts()) {
      const std::vector<std::byte> bytes = bytes_of(first, part);
      for (const StatePart& own : by_parts.state_parts())
        if (own.name == part.name) by_parts.write_part(own, bytes);
      by_tensors.write_input(part.name, first.read_input(part.name));
    }
    for (Program* program : {&first, &by_parts, &by_tensors}) run_step(*program, 2, false);
    expect_same_state(by_parts, first, " by parts");
    expect_same_state(by_tensors, first, " by tensors");
    expect_same(by_parts.read_output("y"), first.read_output("y"), "y by parts");
    expect_same(by_tensors.read_output("y"), first.read_output("y"), "y by tensors");
  }
}

// The values of a random stream are the same in either form, and their halves belong together.
TEST_P(SplitParameters, take_random_values) {
  Program split = program_of({}, false, GetParam()), whole = program_of({}, true, GetParam());
  for (Program* program : {&split, &whole}) {
    program->write_random("weight", {.deviation = 0.1}, 5);
    run_step(*program, 1, true);
  }
  expect_same_state(split, whole, "");
  EXPECT_EQ(split.read_output("y").data, whole.read_output("y").data);
}

INSTANTIATE_TEST_SUITE_P(Devices, SplitParameters, ::testing::Values("cpu", "reference"),
                         [](const auto& device) { return std::string(device.param); });

TEST(SplitOptimizer, names_halves_that_do_not_belong_together) {
  Graph graph;
  const auto made = [&](DType dtype, const char* name) { return input(graph, name, {dtype, {2}}, Role::data); };
  const Value rounded = made(DType::bf16, "w"), wide = made(DType::fp32, "x"), low = made(DType::low_half, "l");
  const Attributes attributes{{"learning_rate", 0.1}, {"momentum", 0.0}, {"split", true}, {"weight_decay", 0.0}};
  const auto sgd = [&](const std::vector<Value>& operands) { make_node(graph, Op::sgd, operands, attributes); };
  EXPECT_NO_THROW(sgd({rounded, wide, low}));
  const auto is_refused =
      ThrowsMessage<Error>(HasSubstr("the halves of a parameter must be bf16 and low_half, of one shape"));
  EXPECT_THAT([&] { sgd({wide, wide, low}); }, is_refused);
  EXPECT_THAT([&] { sgd({rounded, wide, rounded}); }, is_refused);
  EXPECT_THAT(error_of([&] { sgd({rounded, wide}); }), HasSubstr("3 operands per tensor"));
  EXPECT_THAT(error_of([&] { round_away(graph, rounded); }), HasSubstr("the operand must be fp32"));
  EXPECT_THAT(error_of([&] { join_halves(graph, wide, low); }), HasSubstr("the operands must be bf16 and low_half"));
}

}  // namespace
}  // namespace ridgepoint
