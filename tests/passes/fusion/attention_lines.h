// Attention in primitive ops, for the tests of recognise_attention: one graph, which each test changes.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "support/records/replaced.h"

namespace ridgepoint::testing {

// q, k and v [2,6,4], which are %0, %1 and %2; the scores %6 [2,6,6], the weights %12 [2,6,6], and o.
inline const std::string kPlainAttention = R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[2,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)";

// q, k and v, followed by lines of the test's own.
inline std::string operands_and(const std::string& rest) {
  return kPlainAttention.substr(0, kPlainAttention.find("%3:")) + rest;
}

// A text, and what stands in each of its places instead.
using Change = std::pair<std::string, std::string>;

// Makes the changes in their order. A test fails where the graph lacks the text of one.
inline std::string with(std::string graph, std::initializer_list<Change> changes) {
  for (const auto& [before, after] : changes) {
    EXPECT_NE(graph.find(before), std::string::npos) << before;
    graph = replaced(std::move(graph), before, after);
  }
  return graph;
}

// The same by the op softmax.
inline const std::string kSoftmaxAttention = kPlainAttention.substr(0, kPlainAttention.find("%7:")) +
                                             "%12:fp32[2,6,6] = softmax(%6)\n" +
                                             kPlainAttention.substr(kPlainAttention.find("%13:"));

// The products of queries and keys are the scores.
inline const std::string kUnscaledAttention =
    with(kSoftmaxAttention, {{"%5:fp32[] = constant() {dtype=\"fp32\", value=0.3}\n%6:fp32[2,6,6] = mul(%4, %5)\n", ""},
                             {"softmax(%6)", "softmax(%4)"}});

// The softmax reads %20, which the lines make of the scores.
inline std::string with_scores(const std::string& lines, const std::string& graph = kSoftmaxAttention) {
  return with(graph, {{"%12:", lines + "\n%12:"}, {"softmax(%6)", "softmax(%20)"}});
}

// The last product reads %20, which the lines make of the weights.
inline std::string with_weights(const std::string& lines) {
  return with(kSoftmaxAttention, {{"%13:", lines + "\n%13:"}, {"matmul(%12", "matmul(%20"}});
}

// A causal mask in plain ops.
inline const std::string kMaskLines = R"(%14:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%15:fp32[] = constant() {dtype="fp32", value=0.0}
%16:fp32[6,6] = add(%14, %15)
%17:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%18:bool[6,6] = less_equal(%17, %16)
%19:fp32[] = constant() {dtype="fp32", value=-inf}
%20:fp32[2,6,6] = where(%18, %6, %19))";

// q, k and v [6,4].
inline std::string as_matrices(const std::string& graph) {
  return with(graph, {{"[2,6,4]", "[6,4]"}, {"[2,4,6]", "[4,6]"}, {"[0,2,1]", "[1,0]"}, {"[2,6,6]", "[6,6]"}});
}

}  // namespace ridgepoint::testing
