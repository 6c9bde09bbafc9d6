// Fused nodes of several phases whose result lies over an operand, against the same graph without compilation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

// neg(x) less the sum of its maximum and its element at the target; the result may lie over neg(x).
constexpr const char* kPick = R"(graph "g"
%0:fp32[R,C] = input() {name="x", role="data"} @forward "" ""
%1:int64[R,1] = input() {name="t", role="data"} @forward "" ""
%2:fp32[R,C] = neg(%0) @forward "" ""
%3:fp32[R,C] = fused(%2, %1) @forward "" ""
body "fused_pick"
%0:fp32[R,C] = input() {name="0", role="data"} @forward "" ""
%1:int64[R,1] = input() {name="1", role="data"} @forward "" ""
%2:int64[C] = iota() {axis=0, dtype="int64", shape=[C]} @forward "" ""
%3:bool[R,C] = equal(%2, %1) @forward "" ""
%4:fp32[] = constant() {dtype="fp32", value=0.0} @forward "" ""
%5:fp32[R,C] = where(%3, %0, %4) @forward "" ""
%6:fp32[R,1] = reduce_sum(%5) {axes=[1], keep_dims=true} @forward "" ""
MAXIMUM
%9:fp32[R,C] = sub(%0, %8) @forward "" ""
output "0" %9
end
output "y" %3
)";
constexpr const char* kAndMaximum = R"(%7:fp32[R,1] = reduce_max(%0) {axes=[1], keep_dims=true} @forward "" ""
%8:fp32[R,1] = add(%6, %7) @forward "" "")";
constexpr const char* kAlone = R"(%8:fp32[R,1] = neg(%6) @forward "" "")";

HostTensor operand(std::int64_t rows, std::int64_t columns) {
  HostTensor x({DType::fp32, {rows, columns}});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    x.as<float>()[static_cast<std::size_t>(i)] = -static_cast<float>(i % 1000) - 1.0F;
  return x;
}

std::int64_t target(std::int64_t row) { return 5 + row % 7; }

HostTensor result_of(const std::string& text, std::int64_t rows, std::int64_t columns, Compile level) {
  Program program(parse_graph(text), open_device("cpu"), {.compile = {.level = level}});
  HostTensor t({DType::int64, {rows, 1}});
  for (std::int64_t row = 0; row < rows; ++row) t.as<std::int64_t>()[static_cast<std::size_t>(row)] = target(row);
  program.write_input("x", operand(rows, columns));
  program.write_input("t", t);
  for (int run = 0; run < 20; ++run) program.run();
  program.synchronize();
  return program.read_output("y");
}

HostTensor by_definition(std::int64_t rows, std::int64_t columns, bool with_maximum) {
  HostTensor y = operand(rows, columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto line = y.as<float>().subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
    for (float& element : line) element = -element;
    const float picked = line[static_cast<std::size_t>(target(row))];
    const float subtracted = with_maximum ? picked + *std::ranges::max_element(line) : -picked;
    for (float& element : line) element -= subtracted;
  }
  return y;
}

TEST(TakeOver, leaves_the_results_of_fused_nodes_that_read_an_operand_in_several_phases) {
  for (const auto& [rows, columns] : {std::pair{1, 400000}, {2, 100000}, {300, 1000}, {5, 33}}) {
    for (const bool with_maximum : {false, true}) {
      std::string text = replaced(kPick, "MAXIMUM", with_maximum ? kAndMaximum : kAlone);
      text = replaced(replaced(text, "[R,", "[" + std::to_string(rows) + ","), "C]", std::to_string(columns) + "]");
      const HostTensor expected = by_definition(rows, columns, with_maximum);
      for (const Compile level : {Compile::off, Compile::fuse}) {
        EXPECT_TRUE(result_of(text, rows, columns, level).data == expected.data)
            << rows << " x " << columns << ' ' << with_maximum << ' ' << name(level);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
