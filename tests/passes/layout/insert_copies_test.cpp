// Copies before operands whose layout the kernel does not support, and none before others.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

PassTarget asking_for(OperandLayout layout) {
  PassTarget target = testing::target_with_kernels();
  target.operand_layout = [layout](const Graph&, const Node& node, int) {
    return node.op == Op::copy ? OperandLayout::any : layout;
  };
  return target;
}

TEST(InsertCopies, copies_before_a_reshape_that_strides_cannot_express) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[6,4] = transpose(%0) {permutation=[1,0]}
-%2:fp32[24] = reshape(%1) {shape=[24]}
+%4:fp32[6,4] = copy(%1)
+%2:fp32[24] = reshape(%4) {shape=[24]}
 %3:fp32[24] = exp(%2)
 output "y" %3
)",
                   asking_for(OperandLayout::any));
}

TEST(InsertCopies, leaves_a_reshape_that_strides_can_express) {
  expect_left(insert_copies, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,4] = transpose(%0) {permutation=[1,0]}
%2:fp32[2,3,4] = reshape(%1) {shape=[2,3,4]}
%3:fp32[2,3,4] = exp(%2)
%4:fp32[4,1,6] = reshape(%0) {shape=[4,1,6]}
%5:fp32[4,3,6] = broadcast(%4) {shape=[4,3,6]}
%6:fp32[2,2,3,6] = reshape(%5) {shape=[2,2,3,6]}
%7:fp32[2,2,3,6] = exp(%6)
output "split" %3
output "under_broadcast" %7
)",
              asking_for(OperandLayout::any));
}

TEST(InsertCopies, copies_once_for_many_readers) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[6,4] = transpose(%0) {permutation=[1,0]}
-%2:fp32[6,4] = exp(%1)
-%3:fp32[6,4] = neg(%1)
+%4:fp32[6,4] = copy(%1)
+%2:fp32[6,4] = exp(%4)
+%3:fp32[6,4] = neg(%4)
 output "a" %2
 output "b" %3
)",
                   asking_for(OperandLayout::dense));
}

TEST(InsertCopies, lets_a_matrix_operand_be_transposed_but_not_flipped) {
  expect_left(insert_copies, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="square", role="data"}
%2:fp32[6,6] = transpose(%1) {permutation=[1,0]}
%3:fp32[4,6] = matmul(%0, %2)
output "a" %3
)",
              asking_for(OperandLayout::matrix));
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[6,6] = input() {name="square", role="data"}
 %2:fp32[4,6] = flip(%0) {axis=1}
-%3:fp32[4,6] = matmul(%2, %1)
+%4:fp32[4,6] = copy(%2)
+%3:fp32[4,6] = matmul(%4, %1)
 output "b" %3
)",
                   asking_for(OperandLayout::matrix));
}

// [B,S,H,D] read as [B,H,S,D] and as [B,H,D,S]: one copy, in which D stays contiguous.
TEST(InsertCopies, copies_heads_once_for_a_matrix_and_its_transpose) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[2,5,3,4] = input() {name="heads", role="data"}
 %1:fp32[2,3,5,5] = input() {name="square", role="data"}
 %2:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
-%3:fp32[2,3,5,4] = matmul(%1, %2)
-%4:fp32[2,3,4,5] = transpose(%0) {permutation=[0,2,3,1]}
+%6:fp32[2,3,5,4] = copy(%2)
+%3:fp32[2,3,5,4] = matmul(%1, %6)
+%4:fp32[2,3,4,5] = transpose(%6) {permutation=[0,1,3,2]}
 %5:fp32[2,3,4,5] = matmul(%4, %1)
 output "plain" %3
 output "turned" %5
)",
                   asking_for(OperandLayout::batched_matrix));
  expect_rewritten(insert_copies, R"(
 %0:fp32[2,5,3,4] = input() {name="heads", role="data"}
 %1:fp32[2,3,5,5] = input() {name="square", role="data"}
-%2:fp32[2,3,4,5] = transpose(%0) {permutation=[0,2,3,1]}
+%6:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
+%7:fp32[2,3,5,4] = copy(%6)
+%2:fp32[2,3,4,5] = transpose(%7) {permutation=[0,1,3,2]}
 %3:fp32[2,3,4,5] = matmul(%2, %1)
-%4:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
-%5:fp32[2,3,5,4] = matmul(%1, %4)
+%5:fp32[2,3,5,4] = matmul(%1, %7)
 output "turned" %3
 output "plain" %5
)",
                   asking_for(OperandLayout::batched_matrix));
}

// Heads [B,S,H,D] read as [B,H,S,D], with rows of one vector of 16 bytes; a flipped operand is copied, as is a
// constant.
TEST(InsertCopies, lets_aligned_rows_be_heads_but_not_flipped) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[2,5,3,4] = input() {name="heads", role="data"}
 %1:fp32[2,3,5,4] = transpose(%0) {permutation=[0,2,1,3]}
 %2:fp32[2,3,5,4] = exp(%1)
 %3:fp32[2,3,5,4] = flip(%1) {axis=2}
-%4:fp32[2,3,5,4] = exp(%3)
+%8:fp32[2,3,5,4] = copy(%3)
+%4:fp32[2,3,5,4] = exp(%8)
 %5:fp32[] = constant() {dtype="fp32", value=2.0}
 %6:fp32[3,4] = broadcast(%5) {shape=[3,4]}
-%7:fp32[3,4] = exp(%6)
+%9:fp32[3,4] = copy(%6)
+%7:fp32[3,4] = exp(%9)
 output "a" %2
 output "b" %4
 output "c" %7
)",
                   asking_for(OperandLayout::aligned_rows));
}

TEST(InsertCopies, takes_a_batch_that_one_stride_reaches_and_a_broadcast_one_as_they_are) {
  expect_left(insert_copies, R"(
%0:fp32[2,3,5,4] = input() {name="dense", role="data"}
%1:fp32[3,4,6] = input() {name="weight", role="data"}
%2:fp32[2,3,4,6] = broadcast(%1) {shape=[2,3,4,6]}
%3:fp32[2,3,5,6] = matmul(%0, %2)
%4:fp32[2,3,4,5] = transpose(%0) {permutation=[0,1,3,2]}
%5:fp32[2,3,4,4] = matmul(%4, %0)
output "a" %3
output "b" %5
)",
              asking_for(OperandLayout::batched_matrix));
}

TEST(InsertCopies, makes_outputs_dense) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[] = constant() {dtype="fp32", value=2.0}
 %2:fp32[3] = broadcast(%1) {shape=[3]}
 %3:fp32[6,4] = transpose(%0) {permutation=[1,0]}
-output "constant" %2
-output "turned" %3
+%4:fp32[3] = copy(%2)
+%5:fp32[6,4] = copy(%3)
+output "constant" %4
+output "turned" %5
)",
                   asking_for(OperandLayout::any));
}

PassTarget that_writes_strided(bool writes) {
  PassTarget target = asking_for(OperandLayout::any);
  target.writes_strided = [writes](const Graph&, const Node&) { return writes; };
  return target;
}

TEST(InsertCopies, leaves_operands_of_concat_that_kernels_write_in_place) {
  Graph graph = testing::graph_of(R"(
%0:fp32[4,8] = input() {name="x", role="data"}
%1:fp32[4,8] = exp(%0)
%2:fp32[4,8] = neg(%0)
%3:fp32[2,16] = reshape(%2) {shape=[2,16]}
%4:fp32[4,8] = reshape(%3) {shape=[4,8]}
%5:fp32[4,16] = concat(%1, %4) {axis=1}
output "y" %5
)");
  EXPECT_TRUE(insert_copies(graph, PassOptions({}, that_writes_strided(true))));
  EXPECT_EQ(testing::count(graph, Op::copy), 1U);  // strides do not express a reshape of a part to 2 x 16
  expect_left(insert_copies, R"(
%0:fp32[4,8] = input() {name="x", role="data"}
%1:fp32[4,8] = exp(%0)
%2:fp32[4,2,4] = reshape(%0) {shape=[4,2,4]}
%3:fp32[4,2,4] = neg(%2)
%4:fp32[2,4,4] = transpose(%3) {permutation=[1,0,2]}
%5:fp32[4,2,4] = transpose(%4) {permutation=[1,0,2]}
%6:fp32[4,8] = reshape(%5) {shape=[4,8]}
%7:fp32[4,16] = concat(%1, %6) {axis=1}
output "y" %7
)",
              that_writes_strided(true));
}

TEST(InsertCopies, copies_operands_of_concat_that_no_kernel_can_write_in_place) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,8] = input() {name="x", role="data"}
 %1:fp32[4,8] = exp(%0)
 %2:fp32[4,8] = neg(%0)
-%3:fp32[4,24] = concat(%0, %1, %2) {axis=1}
+%4:fp32[4,8] = copy(%0)
+%5:fp32[4,8] = copy(%1)
+%3:fp32[4,24] = concat(%4, %5, %2) {axis=1}
 output "e" %1
 output "y" %3
)",
                   that_writes_strided(true));
}

TEST(InsertCopies, copies_operands_of_concat_where_kernels_write_dense_results_only) {
  expect_rewritten(insert_copies, R"(
 %0:fp32[4,8] = input() {name="x", role="data"}
 %1:fp32[4,8] = exp(%0)
 %2:fp32[4,8] = neg(%0)
-%3:fp32[4,16] = concat(%1, %2) {axis=1}
+%4:fp32[4,8] = copy(%1)
+%5:fp32[4,8] = copy(%2)
+%3:fp32[4,16] = concat(%4, %5) {axis=1}
 output "y" %3
)",
                   that_writes_strided(false));
}

TEST(InsertCopies, leaves_operands_of_concat_along_the_first_dimension) {
  expect_left(insert_copies, R"(
%0:fp32[4,8] = input() {name="x", role="data"}
%1:fp32[4,8] = exp(%0)
%2:fp32[4,8] = neg(%0)
%3:fp32[8,8] = concat(%1, %2) {axis=0}
output "y" %3
)",
              that_writes_strided(false));
}

// A product with its end writes matrices where a product alone does: at multiples of 256 bytes.
TEST(InsertCopies, lets_a_product_with_its_end_write_where_a_product_can) {
  const std::string product = R"(
%0:bf16[3,8] = input() {name="x", role="data"}
%1:bf16[8,8] = input() {name="w", role="data"}
%2:bf16[3,8], %3:bf16[8] = fused(%0, %1)
body "fused_matmul_exp"
%0:bf16[3,8] = input() {name="0", role="data"}
%1:bf16[8,8] = input() {name="1", role="data"}
%2:bf16[3,8] = matmul(%0, %1)
%3:bf16[3,8] = exp(%2)
%4:bf16[8] = reduce_sum(%3) {axes=[0], keep_dims=false}
output "0" %3
output "1" %4
end
%4:bf16[3,8] = exp(%0)
%5:bf16[3] = reduce_sum(%0) {axes=[1], keep_dims=false}
)";
  expect_left(insert_copies, product + "%6:bf16[6,8] = concat(%2, %4) {axis=0}\noutput \"first\" %6\n",
              that_writes_strided(false));
  const std::string second = product + "%6:bf16[6,8] = concat(%4, %2) {axis=0}\noutput \"second\" %6\n";
  Graph graph = testing::graph_of(second);
  EXPECT_TRUE(insert_copies(graph, PassOptions({}, that_writes_strided(false)))) << "at 48 bytes";
  EXPECT_EQ(testing::count(graph, Op::copy), 1U);
  expect_left(insert_copies, second, that_writes_strided(true));
  expect_left(insert_copies, product + "%6:bf16[11] = concat(%5, %3) {axis=0}\noutput \"vector\" %6\n",
              that_writes_strided(false));
}

}  // namespace
}  // namespace ridgepoint
