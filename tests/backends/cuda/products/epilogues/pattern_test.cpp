// The matcher of epilogues: what it binds, in any order of operands, and what it tells apart.
#include "backends/cuda/products/epilogues/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using cuda::Term;

// (x y + b) tanh(x y + b), of which the sum is computed twice.
const std::string kPatternBody = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = input() {name="2", role="data"}
%3:bf16[4,8] = matmul(%0, %1)
%4:bf16[4,8] = add(%3, %2)
%5:bf16[4,8] = add(%3, %2)
%6:bf16[4,8] = tanh(%5)
%7:bf16[4,8] = mul(%6, %4)
output "0" %7
)";

struct FoundPattern {
  bool is_found = false;
  std::size_t addend = 0, result = 0;
};

FoundPattern pattern_in(const std::string& lines) {
  const FusedBody body(testing::graph_of(lines));
  const std::optional<cuda::MatrixProduct> product = cuda::MatrixProduct::of(body.graph);
  if (!product) return {};
  const Term addend = Term::input(product->type(product->n));
  const Term sum = Term::product() + addend;
  const Term result = sum * Term::call(Op::tanh, {sum});
  const std::optional<cuda::Match> found = cuda::match(body.graph, {{result}, {sum}});
  return found ? FoundPattern{true, found->input(addend), found->result(result)} : FoundPattern{};
}

TEST(EpiloguePattern, takes_operands_of_sums_and_products_in_any_order) {
  for (const std::string& lines : {kPatternBody, replaced(kPatternBody, "mul(%6, %4)", "mul(%4, %6)"),
                                   replaced(kPatternBody, "add(%3, %2)", "add(%2, %3)")}) {
    const FoundPattern found = pattern_in(lines);
    EXPECT_TRUE(found.is_found);
    EXPECT_EQ(found.addend, 2U);
    EXPECT_EQ(found.result, 0U);
  }
}

TEST(EpiloguePattern, takes_equal_computations_for_one_value_and_no_others) {
  EXPECT_FALSE(pattern_in(replaced(kPatternBody, "%5:bf16[4,8] = add(%3, %2)", "%5:bf16[4,8] = add(%3, %3)")).is_found);
  EXPECT_FALSE(pattern_in(replaced(kPatternBody, "%5:bf16[4,8] = add(%3, %2)", "%5:bf16[4,8] = sub(%3, %2)")).is_found);
}

TEST(EpiloguePattern, knows_every_result) {
  EXPECT_TRUE(pattern_in(kPatternBody + "output \"1\" %4\n").is_found) << "an optional one";
  EXPECT_FALSE(pattern_in(kPatternBody + "output \"1\" %6\n").is_found) << "one that the pattern lacks";
  EXPECT_FALSE(pattern_in(replaced(kPatternBody, "output \"0\" %7", "output \"0\" %4")).is_found);
}

TEST(EpiloguePattern, compares_types_and_the_place_of_the_product) {
  EXPECT_FALSE(pattern_in(replaced(kPatternBody, "%2:bf16[4,8]", "%2:bf16[1,8]")).is_found) << "a broadcast";
  EXPECT_FALSE(
      pattern_in(replaced(kPatternBody, "matmul(%0, %1)", "matmul(%0, %1)\n%8:bf16[4,8] = matmul(%0, %1)")).is_found)
      << "two products";
}

}  // namespace
}  // namespace ridgepoint
