// The first lines of graphs in the tests of recognise_attention.
#pragma once

#include <string>

namespace ridgepoint::testing {

// q, k and v [2,6,4], which are %0, %1 and %2, followed by the test's own lines.
inline std::string operands_and(const std::string& rest) {
  return R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[2,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
)" + rest;
}

// operands_and() with the products of queries and keys, %4 [2,6,6].
inline std::string products_and(const std::string& rest) {
  return operands_and(R"(%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3)
)" + rest);
}

// products_and() with the scores, %6 [2,6,6], which are the products times 0.3.
inline std::string scores_and(const std::string& rest) {
  return products_and(R"(%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,6] = mul(%4, %5)
)" + rest);
}

}  // namespace ridgepoint::testing
