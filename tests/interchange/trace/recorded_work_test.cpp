// What ops read, write and compute, by the shapes that a profiler recorded.
#include "interchange/trace/recorded_work.h"

#include <gtest/gtest.h>

#include <string>

namespace ridgepoint {
namespace {

std::int64_t bytes_of(std::string_view op, std::string_view dims, std::string_view types) {
  const std::optional<TraceWork> work = work_of_op(op, {.dims = dims, .types = types, .concrete = {}});
  return work ? work->bytes : 0;
}

TEST(RecordedWork, of_elementwise_ops_is_each_tensor_once) {
  EXPECT_EQ(bytes_of("aten::mul", "[[4,6],[4,6]]", R"(["float","float"])"), 3 * 24 * 4);
  EXPECT_EQ(bytes_of("aten::mul", "[[4,6],[]]", R"(["c10::BFloat16","Scalar"])"), 2 * 24 * 2);
  EXPECT_EQ(bytes_of("aten::add_", "[[4,6],[4,6],[]]", R"(["float","float","Scalar"])"), 3 * 24 * 4);
  EXPECT_EQ(bytes_of("aten::silu", "[[4,6]]", R"(["c10::Half"])"), 2 * 24 * 2);
}

TEST(RecordedWork, of_elementwise_ops_has_the_common_shape_and_the_widest_type) {
  EXPECT_EQ(bytes_of("aten::mul", "[[4,1],[6]]", R"(["float","float"])"), (4 + 6 + 24) * 4);
  EXPECT_EQ(bytes_of("aten::mul", "[[4,6],[4,6]]", R"(["c10::BFloat16","float"])"), 24 * (2 + 4 + 4));
  EXPECT_EQ(bytes_of("aten::where", "[[6,6],[4,6,6],[]]", R"(["bool","c10::BFloat16","float"])"), 36 + 2 * 144 * 2 + 4);
  EXPECT_EQ(bytes_of("aten::lt", "[[4,6],[4,6]]", R"(["float","float"])"), 2 * 24 * 4 + 24);
  EXPECT_EQ(bytes_of("aten::add", "[[4,6],[5,6]]", R"(["float","float"])"), 0) << "the shapes do not fit";
}

TEST(RecordedWork, knows_softmax_norms_look_ups_copies_and_fills) {
  EXPECT_EQ(bytes_of("aten::_softmax", "[[4,6],[],[]]", R"(["float","Scalar","Scalar"])"), 2 * 24 * 4);
  EXPECT_EQ(bytes_of("aten::_softmax_backward_data", "[[4,6],[4,6],[],[]]", R"(["float","float","Scalar",""])"),
            3 * 24 * 4);
  EXPECT_EQ(bytes_of("aten::native_layer_norm", "[[4,6],[],[6],[6],[]]", R"(["float","","float","float","Scalar"])"),
            (2 * 24 + 12) * 4);
  EXPECT_EQ(bytes_of("aten::embedding", "[[1000,8],[3,2],[]]", R"(["float","long int","Scalar"])"), 2 * 6 * 8 * 4 + 48);
  EXPECT_EQ(bytes_of("aten::copy_", "[[4,6],[4,6],[]]", R"(["c10::BFloat16","float","Scalar"])"), 24 * 6);
  EXPECT_EQ(bytes_of("aten::fill_", "[[4,6],[]]", R"(["float","Scalar"])"), 24 * 4);
  EXPECT_EQ(bytes_of("aten::sum", "[[4,6],[],[]]", R"(["float","",""])"), 24 * 4) << "what is read";
}

TEST(RecordedWork, of_attention_is_half_where_it_is_causal) {
  const auto attention = [](std::string_view op, std::string_view dims, std::string_view types,
                            std::string_view concrete) {
    return work_of_op(op, {dims, types, concrete});
  };
  constexpr std::string_view kDims = "[[2,3,8,4],[2,3,8,4],[2,3,8,4],[],[],[],[]]";
  constexpr std::string_view kTypes =
      R"(["c10::BFloat16","c10::BFloat16","c10::BFloat16","Scalar","Scalar","Scalar",""])";
  constexpr std::string_view kOp = "aten::_scaled_dot_product_flash_attention";
  const auto full = attention(kOp, kDims, kTypes, R"(["","","","0.","False","False",""])");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->flops, 4 * 2 * 3 * 8 * 8 * 4);
  EXPECT_EQ(full->bytes, 4 * (2 * 3 * 8 * 4) * 2);
  EXPECT_EQ(full->dtype, "bf16");
  EXPECT_FALSE(full->is_product);
  EXPECT_EQ(attention(kOp, kDims, kTypes, R"(["","","","0.","True","False",""])")->flops, full->flops / 2);
  EXPECT_FALSE(attention(kOp, kDims, kTypes, "").has_value()) << "the file does not say whether it is causal";
  const auto backward = attention(
      "aten::_scaled_dot_product_flash_attention_backward",
      "[[2,3,8,4],[2,3,8,4],[2,3,8,4],[2,3,8,4],[2,3,8,4],[2,3,8],[],[],[],[],[],[]]",
      R"(["c10::BFloat16","c10::BFloat16","c10::BFloat16","c10::BFloat16","c10::BFloat16","float","","","","","",""])",
      R"(["","","","","","","","","8","8","0.","True"])");
  ASSERT_TRUE(backward.has_value());
  EXPECT_EQ(backward->flops, full->flops / 2 * 5 / 2);
  EXPECT_EQ(backward->bytes, 2 * full->bytes);
}

TEST(RecordedWork, of_lists_of_tensors_is_known_where_the_file_has_their_shapes) {
  EXPECT_EQ(bytes_of("aten::_foreach_add_", "[[[2,3],[4]],[[2,3],[4]],[]]", R"(["TensorList","TensorList","Scalar"])"),
            3 * 10 * 4);
  EXPECT_EQ(bytes_of("aten::_foreach_mul_", "[[[2,3],[4]],[]]", R"(["TensorList","Scalar"])"), 2 * 10 * 4);
  EXPECT_EQ(bytes_of("aten::_fused_adamw_", "[[[5]],[[5]],[[5]],[[5]],[],[[]]]",
                     R"(["TensorList","TensorList","TensorList","TensorList","TensorList","TensorList"])"),
            (4 * 5 + 1 + 3 * 5 + 1) * 4);
  EXPECT_EQ(bytes_of("aten::_foreach_add_", "[[],[],[]]", R"(["TensorList","TensorList","Scalar"])"), 0)
      << "PyTorch writes no list of more than 30";
}

TEST(RecordedWork, of_other_ops_and_without_shapes_is_unknown) {
  EXPECT_FALSE(may_have_work("aten::view"));
  EXPECT_FALSE(may_have_work("mul"));
  EXPECT_TRUE(may_have_work("aten::mul_"));
  EXPECT_EQ(bytes_of("aten::view", "[[4,6]]", R"(["float"])"), 0);
  EXPECT_EQ(bytes_of("aten::mul", "", ""), 0);
  EXPECT_EQ(bytes_of("aten::mul", "[[4,6]]", R"(["nvtx"])"), 0);
  EXPECT_EQ(bytes_of("aten::mul", "[[-4,6]]", R"(["float"])"), 0);
  EXPECT_EQ(bytes_of("aten::mul", "[[9223372036854775807,9223372036854775807]]", R"(["float"])"), 0);
}

}  // namespace
}  // namespace ridgepoint
