#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

using Numbers = std::array<float, 3>;

const TensorType kType{DType::fp32, {3}};

HostTensor tensor(const Numbers& numbers) {
  HostTensor result(kType);
  std::ranges::copy(numbers, result.as<float>().begin());
  return result;
}

std::vector<float> elements(const HostTensor& tensor) {
  const std::span<const float> numbers = tensor.as<float>();
  return {numbers.begin(), numbers.end()};
}

// y = 2 (x + w), by two kernels, so that the first writes to a buffer that the second may take over.
Graph graph() {
  Graph graph;
  const Value x = input(graph, "x", kType, Role::data);
  const Value w = input(graph, "w", kType, Role::parameter);
  graph.add_output("y", scale(graph, add(graph, x, w), 2.0));
  return graph;
}

struct BoundTensors : ::testing::TestWithParam<std::pair<const char*, Compile>> {
  Program program(Graph of = graph()) const {
    return {std::move(of), open_device(GetParam().first), {.compile = {.level = GetParam().second}}};
  }
};

TEST_P(BoundTensors, are_read_and_written_where_they_lie) {
  Program program = this->program();
  Numbers x{1, 2, 3}, y{};
  EXPECT_TRUE(program.bind_input("x", x.data()));
  EXPECT_TRUE(program.bind_output("y", y.data()));
  for (int run = 0; run < 3; ++run) {
    program.run();
    program.synchronize();
    EXPECT_EQ(y, (Numbers{2 * x[0], 4, 6}));
    EXPECT_THAT(elements(program.read_output("y")), ::testing::ElementsAreArray(y));
    x[0] += 10;
  }
}

TEST_P(BoundTensors, give_way_to_the_memory_of_the_program) {
  Program program = this->program();
  program.write_input("x", tensor({5, 5, 5}));
  program.run();
  const Numbers x{1, 2, 3};
  Numbers y{};
  program.bind_input("x", x.data());
  program.bind_output("y", y.data());
  EXPECT_THROW(program.read_output("y"), Error);  // nothing has written to it
  program.run();
  program.bind_input("x", nullptr);
  program.bind_output("y", nullptr);
  EXPECT_THROW(program.read_output("y"), Error);  // it may have ended
  y = {};
  program.run();
  EXPECT_THAT(elements(program.read_output("y")), ::testing::Each(10));
  EXPECT_EQ(y, Numbers{});
}

TEST_P(BoundTensors, need_no_memory_of_outputs) {
  Program program = this->program();
  Numbers y{};
  program.bind_output("y", y.data());
  program.run();
  const MemoryUse bound = program.memory_use();
  program.bind_output("y", nullptr);
  program.run();
  EXPECT_GE(program.memory_use().allocated_bytes, bound.allocated_bytes + 512);
}

TEST_P(BoundTensors, may_follow_one_another_and_end) {
  Program program = this->program();
  for (int run = 0; run < 5; ++run) {
    const auto x = std::make_unique<Numbers>(Numbers{static_cast<float>(run), 0, 0});
    const auto y = std::make_unique<Numbers>();
    program.bind_input("x", x->data());
    program.bind_output("y", nullptr);
    program.bind_output("y", y->data());
    program.run();
    program.synchronize();
    EXPECT_EQ((*y)[0], 2.0F * static_cast<float>(run));
  }
}

TEST_P(BoundTensors, are_not_what_runs_change_or_share) {
  Graph shared;
  const Value x = input(shared, "x", kType, Role::data);
  const Value count = input(shared, "count", kType, Role::state);
  const Value next = shift(shared, count, 1.0);
  shared.add_update(count, next);
  const Value y = exp(shared, x);
  shared.add_output("x again", x);
  shared.add_output("count", next);
  shared.add_output("y", y);
  shared.add_output("y again", y);
  shared.add_output("part", split(shared, y, 0, {1, 2})[1]);
  Program program = this->program(std::move(shared));
  Numbers memory{}, other{};
  EXPECT_FALSE(program.bind_input("count", memory.data()));
  EXPECT_FALSE(program.bind_output("x again", memory.data()));
  EXPECT_FALSE(program.bind_output("count", memory.data()));
  EXPECT_FALSE(program.bind_output("part", memory.data()));
  EXPECT_TRUE(program.bind_output("y", memory.data()));
  EXPECT_FALSE(program.bind_output("y again", other.data()));
  program.run();
  program.synchronize();
  EXPECT_EQ(memory, (Numbers{1, 1, 1}));
  EXPECT_THAT(elements(program.read_output("y again")), ::testing::Each(1));
  EXPECT_THAT(elements(program.read_output("count")), ::testing::Each(1));
}

TEST_P(BoundTensors, have_indices_within_their_table) {
  Graph gather;
  const Value table = input(gather, "table", {DType::fp32, {4, 2}}, Role::parameter);
  gather.add_output("rows", embedding(gather, table, input(gather, "at", {DType::int64, {2}}, Role::data)));
  Program program = this->program(std::move(gather));
  std::array<std::int64_t, 2> at{0, 4};
  EXPECT_THAT([&] { program.bind_input("at", at.data()); },
              ::testing::ThrowsMessage<Error>("element 1 of 'at' is 4; indices must be from 0 to 3"));
  at[1] = 3;
  EXPECT_TRUE(program.bind_input("at", at.data()));
}

TEST_P(BoundTensors, have_names_of_the_program) {
  Program program = this->program();
  EXPECT_THAT([&] { program.bind_input("z", nullptr); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no input 'z'")));
  EXPECT_THAT([&] { program.bind_output("z", nullptr); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no output 'z'")));
}

INSTANTIATE_TEST_SUITE_P(Levels, BoundTensors,
                         ::testing::Values(std::pair("cpu", Compile::off), std::pair("cpu", Compile::fuse),
                                           std::pair("cpu", Compile::full), std::pair("reference", Compile::off)),
                         [](const auto& info) {
                           return std::string(info.param.first) + "_" + std::string(name(info.param.second));
                         });

}  // namespace
}  // namespace ridgepoint
