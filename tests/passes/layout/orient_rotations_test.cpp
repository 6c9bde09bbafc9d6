// Rotations whose transpose moves to their operand, and those that must not change.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

// A rotation %3 [2,5,3,4] along axis 1, followed by its readers.
std::string rotation_and(const std::string& readers) {
  return R"(
%0:fp32[2,5,3,4] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="cosines", role="constant"}
%2:fp32[5,2] = input() {name="sines", role="constant"}
%3:fp32[2,5,3,4] = rope(%0, %1, %2) {axis=1, inverse=false}
)" + readers;
}

TEST(OrientRotations, moves_heads_before_the_rotation) {
  const std::string before = rotation_and(R"(%4:fp32[2,3,5,4] = transpose(%3) {permutation=[0,2,1,3]}
%5:fp32[2,3,5,4] = exp(%4)
output "y" %5
)");
  expect_same_values(orient_rotations, before);
  expect_rewritten(orient_rotations, before, R"(
%0:fp32[2,5,3,4] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="cosines", role="constant"}
%2:fp32[5,2] = input() {name="sines", role="constant"}
%3:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
%4:fp32[2,3,5,4] = rope(%3, %1, %2) {axis=2, inverse=false}
%5:fp32[2,3,5,4] = exp(%4)
output "y" %5
)");
}

TEST(OrientRotations, serves_a_matrix_and_its_transpose) {
  const std::string before = rotation_and(R"(%4:fp32[2,3,5,4] = transpose(%3) {permutation=[0,2,1,3]}
%5:fp32[2,3,5,4] = exp(%4)
%6:fp32[2,3,4,5] = transpose(%3) {permutation=[0,2,3,1]}
%7:fp32[2,3,4,5] = exp(%6)
output "y" %5
output "z" %7
)");
  expect_same_values(orient_rotations, before);
  expect_rewritten(orient_rotations, before, R"(
%0:fp32[2,5,3,4] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="cosines", role="constant"}
%2:fp32[5,2] = input() {name="sines", role="constant"}
%3:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
%4:fp32[2,3,5,4] = rope(%3, %1, %2) {axis=2, inverse=false}
%5:fp32[2,3,4,5] = transpose(%4) {permutation=[0,1,3,2]}
%6:fp32[2,3,5,4] = exp(%4)
%7:fp32[2,3,4,5] = exp(%5)
output "y" %6
output "z" %7
)");
}

TEST(OrientRotations, moves_an_inverse_rotation_and_one_along_another_axis) {
  const std::string before = R"(
%0:fp32[3,2,5,4] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="cosines", role="constant"}
%2:fp32[5,2] = input() {name="sines", role="constant"}
%3:fp32[3,2,5,4] = rope(%0, %1, %2) {axis=2, inverse=true}
%4:fp32[2,5,3,4] = transpose(%3) {permutation=[1,2,0,3]}
%5:fp32[2,5,3,4] = exp(%4)
output "y" %5
)";
  expect_same_values(orient_rotations, before);
  expect_rewritten(orient_rotations, before, R"(
...
%3:fp32[2,5,3,4] = transpose(%0) {permutation=[1,2,0,3]}
%4:fp32[2,5,3,4] = rope(%3, %1, %2) {axis=1, inverse=true}
%5:fp32[2,5,3,4] = exp(%4)
output "y" %5
)");
}

TEST(OrientRotations, leaves_one_whose_readers_disagree) {
  expect_left(orient_rotations, rotation_and(R"(%4:fp32[2,3,5,4] = transpose(%3) {permutation=[0,2,1,3]}
%5:fp32[2,3,5,4] = exp(%4)
%6:fp32[5,2,3,4] = transpose(%3) {permutation=[1,0,2,3]}
%7:fp32[5,2,3,4] = exp(%6)
output "y" %5
output "z" %7
)"));
}

TEST(OrientRotations, leaves_one_that_is_also_read_as_it_is) {
  expect_left(orient_rotations, rotation_and(R"(%4:fp32[2,3,5,4] = transpose(%3) {permutation=[0,2,1,3]}
%5:fp32[2,3,5,4] = exp(%4)
%6:fp32[2,5,3,4] = exp(%3)
output "y" %5
output "z" %6
)"));
}

TEST(OrientRotations, leaves_one_that_is_a_result) {
  expect_left(orient_rotations, rotation_and(R"(%4:fp32[2,3,5,4] = transpose(%3) {permutation=[0,2,1,3]}
%5:fp32[2,3,5,4] = exp(%4)
output "y" %5
output "rotated" %3
)"));
}

TEST(OrientRotations, leaves_one_whose_last_axis_moves_away) {
  expect_left(orient_rotations, rotation_and(R"(%4:fp32[4,2,5,3] = transpose(%3) {permutation=[3,0,1,2]}
%5:fp32[4,2,5,3] = exp(%4)
output "y" %5
)"));
}

TEST(OrientRotations, leaves_one_that_is_only_transposed_in_its_last_two_axes) {
  expect_left(orient_rotations, rotation_and(R"(%4:fp32[2,5,4,3] = transpose(%3) {permutation=[0,1,3,2]}
%5:fp32[2,5,4,3] = exp(%4)
output "y" %5
)"));
}

}  // namespace
}  // namespace ridgepoint
