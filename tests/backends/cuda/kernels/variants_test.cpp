// The list of kernel variants: every row names a kernel of this program, which runs on the GPUs of the row.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "backends/cuda/card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/libraries/kernel_images.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

using cuda::KernelVariant;

TEST(KernelVariants, name_an_image_of_this_program_and_a_function_of_their_op) {
  if (const std::string why = testing::missing_kernels(); !why.empty()) GTEST_SKIP() << why;
  for (const KernelVariant& variant : cuda::kernel_variants()) {
    const auto images = cuda::kernel_images();
    EXPECT_TRUE(std::any_of(images.begin(), images.end(), [&](const cuda::KernelImage& image) {
      return image.name == variant.image;
    })) << variant.image;
    std::string op(name(variant.op));
    if (op.ends_with("_add")) op.resize(op.size() - 4);  // runs the kernels of the op that does not add
    // A fused node's kernel is named after the body that it computes.
    const bool is_directed = op.ends_with("_backward") || variant.op == Op::fused;
    const std::string stem = is_directed ? op : op + "_forward";
    EXPECT_TRUE(std::string_view(variant.entry).starts_with(stem)) << variant.entry;
    EXPECT_NE(variant.make, nullptr) << variant.entry;
    EXPECT_GT(variant.tiling.threads, 0) << variant.entry;
  }
}

TEST(KernelVariants, have_a_rate_unless_they_multiply_in_double) {
  for (const KernelVariant& variant : cuda::kernel_variants()) {
    const bool is_known = !std::holds_alternative<std::monostate>(variant.rate);
    const bool is_product_in_double =
        variant.dtype == DType::fp64 && traits(variant.op).kernel_class == KernelClass::matmul;
    EXPECT_EQ(is_known, !is_product_in_double) << variant.entry;
    if (const auto* attention = std::get_if<AttentionRate>(&variant.rate)) {
      EXPECT_GT(attention->share, 0) << variant.entry;
      EXPECT_GT(attention->block, 0) << variant.entry;
      EXPECT_EQ(attention->width, variant.tiling.width) << variant.entry;
    }
  }
}

Graph gather_of(DType dtype) {
  Graph graph;
  const Value table = input(graph, "table", {dtype, {10, 8}}, Role::data);
  embedding(graph, table, input(graph, "rows", {DType::int64, {3}}, Role::data));
  return graph;
}

TEST(KernelVariants, run_on_cards_of_their_capability_or_newer) {
  const Graph graph = gather_of(DType::bf16);
  const Node& node = graph.node(graph.order().back());
  cuda::CardFacts card;
  card.capability = {7, 5};
  EXPECT_EQ(cuda::find_variant(card, graph, node), nullptr);
  card.capability = {8, 0};
  ASSERT_NE(cuda::find_variant(card, graph, node), nullptr);
  EXPECT_EQ(cuda::find_variant(card, graph, node)->dtype, DType::bf16);
}

using OnCardKernelVariants = testing::OnCard;

TEST_F(OnCardKernelVariants, have_all_their_functions_in_their_image) {
  cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  for (const KernelVariant& variant : cuda::kernel_variants()) {
    if (!variant.supports(context.card().capability)) continue;
    for (const char* entry : {variant.entry, variant.scalar_entry, variant.prepare_entry, variant.finish_entry}) {
      if (entry == nullptr) continue;
      EXPECT_NO_THROW(context.kernel(variant.image, entry)) << entry;
    }
  }
}

}  // namespace
}  // namespace ridgepoint
