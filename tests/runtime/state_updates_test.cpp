// Updates are one parallel assignment, in every form that a graph can have. Each graph once lost an update or read an
// old value after it was overwritten.

#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class StateUpdates : public ::testing::TestWithParam<const char*> {
 protected:
  void compile(std::string_view lines) {
    program_.emplace(graph_of(lines), open_device(GetParam()), ProgramOptions{.compile = {.verify = true}});
  }
  void write(std::string_view name, const std::vector<float>& values) {
    HostTensor tensor = program_->read_input(name);
    std::copy(values.begin(), values.end(), tensor.as<float>().begin());
    program_->write_input(name, tensor);
  }
  std::vector<float> input(std::string_view name) const { return floats(program_->read_input(name)); }
  std::vector<float> output(std::string_view name) const { return floats(program_->read_output(name)); }

  std::optional<Program> program_;

 private:
  static std::vector<float> floats(const HostTensor& tensor) {
    const std::span<const float> values = tensor.as<float>();
    return {values.begin(), values.end()};
  }
};

TEST_P(StateUpdates, take_a_view) {
  compile(R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[2,2] = reshape(%0) {shape=[2,2]}
%2:fp32[] = constant() {value=10.0, dtype="fp32"}
%3:fp32[2,2] = add(%1, %2)
%4:fp32[4] = reshape(%3) {shape=[4]}
output "y" %4
update %0 %4
)");
  write("w", {1, 2, 3, 4});
  for (int run = 0; run < 2; ++run) program_->run();
  EXPECT_THAT(output("y"), ElementsAre(21, 22, 23, 24));
  EXPECT_THAT(input("w"), ElementsAre(21, 22, 23, 24));
}

TEST_P(StateUpdates, take_one_value_for_two_inputs) {
  compile(R"(
%0:fp32[2] = input() {name="a", role="state"}
%1:fp32[2] = input() {name="b", role="state"}
%2:fp32[2] = input() {name="x", role="data"}
%3:fp32[2] = neg(%2)
%4:fp32[2] = neg(%2)
update %0 %3
update %1 %4
)");
  write("x", {1, 2});
  program_->run();
  EXPECT_THAT(input("a"), ElementsAre(-1, -2));
  EXPECT_THAT(input("b"), ElementsAre(-1, -2));
}

TEST_P(StateUpdates, take_an_input_and_a_constant) {
  compile(R"(
%0:fp32[2] = input() {name="a", role="state"}
%1:fp32[2] = input() {name="b", role="state"}
%2:fp32[2] = input() {name="x", role="data"}
%3:fp32[] = constant() {value=1.0, dtype="fp32"}
%4:fp32[2] = mul(%2, %3)
%5:fp32[2] = broadcast(%3) {shape=[2]}
update %0 %4
update %1 %5
)");
  write("x", {5, 6});
  program_->run();
  EXPECT_THAT(input("a"), ElementsAre(5, 6));
  EXPECT_THAT(input("b"), ElementsAre(1, 1));
}

TEST_P(StateUpdates, exchange_two_inputs) {
  compile(R"(
%0:fp32[2] = input() {name="a", role="state"}
%1:fp32[2] = input() {name="b", role="state"}
update %0 %1
update %1 %0
)");
  write("a", {1, 2});
  write("b", {3, 4});
  program_->run();
  EXPECT_THAT(input("a"), ElementsAre(3, 4));
  EXPECT_THAT(input("b"), ElementsAre(1, 2));
  program_->run();
  EXPECT_THAT(input("a"), ElementsAre(1, 2));
}

TEST_P(StateUpdates, leave_a_detached_old_value_as_it_was) {
  compile(R"(
%0:fp32[2] = input() {name="w", role="state"}
%1:fp32[2] = input() {name="x", role="data"}
%2:fp32[2] = detach(%0)
%3:fp32[2] = add(%0, %1)
%4:fp32[2] = neg(%2)
output "neg_old" %4
output "old" %2
update %0 %3
)");
  write("w", {1, 2});
  write("x", {10, 10});
  program_->run();
  EXPECT_THAT(output("neg_old"), ElementsAre(-1, -2));
  EXPECT_THAT(output("old"), ElementsAre(1, 2));
  EXPECT_THAT(input("w"), ElementsAre(11, 12));
}

TEST_P(StateUpdates, keep_an_old_value_that_a_view_and_an_output_read) {
  compile(R"(
%0:fp32[2,2] = input() {name="w", role="state"}
%1:fp32[2,2] = input() {name="x", role="data"}
%2:fp32[2,2] = transpose(%0) {permutation=[1,0]}
%3:fp32[2,2] = add(%0, %1)
%4:fp32[2,2] = neg(%2)
output "neg_old_t" %4
output "old" %0
update %0 %3
)");
  write("w", {1, 2, 3, 4});
  write("x", {10, 10, 10, 10});
  program_->run();
  EXPECT_THAT(output("neg_old_t"), ElementsAre(-1, -3, -2, -4));
  EXPECT_THAT(output("old"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(input("w"), ElementsAre(11, 12, 13, 14));
}

TEST_P(StateUpdates, rotate_three_inputs_and_transpose_one_in_place) {
  compile(R"(
%0:fp32[2] = input() {name="a", role="state"}
%1:fp32[2] = input() {name="b", role="state"}
%2:fp32[2] = input() {name="c", role="state"}
%3:fp32[2] = input() {name="d", role="state"}
%4:fp32[2] = flip(%3) {axis=0}
update %0 %1
update %1 %2
update %2 %0
update %3 %4
)");
  write("a", {1, 2});
  write("b", {3, 4});
  write("c", {5, 6});
  write("d", {7, 8});
  program_->run();
  EXPECT_THAT(input("a"), ElementsAre(3, 4));
  EXPECT_THAT(input("b"), ElementsAre(5, 6));
  EXPECT_THAT(input("c"), ElementsAre(1, 2));
  EXPECT_THAT(input("d"), ElementsAre(8, 7));
}

INSTANTIATE_TEST_SUITE_P(devices, StateUpdates, ::testing::Values("cpu", "reference"));

}  // namespace
}  // namespace ridgepoint
