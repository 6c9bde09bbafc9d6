// A case of attention for the tests, and what compares the GPU's result with plain ops. The error against the reference
// back end in double may be at most twice that of the decomposition in the same precision, which is the FlashAttention
// project's rule.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/node_run.h"
#include "ops/attention_form.h"

namespace ridgepoint::testing {

struct AttentionCase {
  DType dtype = DType::bf16;
  std::int64_t batch = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t width = 64;
  bool causal = false;
  std::optional<double> scale = {};  // default: 1 / sqrt(head size)
  std::int64_t group = 1;            // matrices of queries that read one of keys
  std::int64_t window = 0;
  double soft_cap = 0;
  bool sums_key_gradients = false;
  bool tf32 = false;

  Shape of_queries() const { return {batch, queries, width}; }
  Shape of_keys() const { return {batch / group, keys, width}; }
  Attributes attributes(Op op = Op::attention) const {
    Attributes made = attributes_of({.scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(width))),
                                     .causal = causal,
                                     .window = window,
                                     .soft_cap = soft_cap});
    if (op == Op::attention_backward && sums_key_gradients) made.set(std::string(kSumsKeyGradients), true);
    if (tf32) made.set("compute", std::string("tf32"));
    return made;
  }
  std::string text() const {
    return std::string(name(dtype)) + ' ' + of_queries().to_string() + " x " + of_keys().to_string() +
           (causal ? " causal" : "") + (scale ? fmt::format(" scale {}", *scale) : "") +
           (window > 0 ? fmt::format(" window {}", window) : "") +
           (soft_cap > 0 ? fmt::format(" cap {}", soft_cap) : "") + (sums_key_gradients ? " summed" : "") +
           (tf32 ? " tf32" : "");
  }
};

inline AttentionCase with_window(DType dtype, std::int64_t batch, std::int64_t length, std::int64_t width,
                                 std::int64_t window) {
  return {.dtype = dtype,
          .batch = batch,
          .queries = length,
          .keys = length,
          .width = width,
          .causal = true,
          .window = window};
}
// Scaled so that a small cap bends most scores.
inline AttentionCase with_soft_cap(AttentionCase c, double soft_cap) {
  c.scale = 0.5;
  c.soft_cap = soft_cap;
  return c;
}

inline double largest_difference(const HostTensor& a, const HostTensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < b.type.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double x = load_element(a.type.dtype, a.data.data() + at * size_bytes(a.type.dtype));
    const double y = load_element(b.type.dtype, b.data.data() + at * size_bytes(b.type.dtype));
    largest = std::max(largest, std::isnan(x - y) ? INFINITY : std::abs(x - y));
  }
  return largest;
}

inline double largest_of(const HostTensor& tensor) {
  HostTensor zero(tensor.type);
  return largest_difference(tensor, zero);
}

class OnCardAttention : public OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape) { return random_operand(dtype, shape, random_, {}); }
  std::vector<Operand> forward_operands(const AttentionCase& c) {
    return {random(c.dtype, c.of_queries()), random(c.dtype, c.of_keys()), random(c.dtype, c.of_keys())};
  }

  // The GPU's result with the op's decomposition in the same precision.
  std::vector<HostTensor> in_plain_ops(Op op, const std::vector<Operand>& operands, Attributes attributes) {
    attributes.set(kPlainAttribute, true);
    return in_program(op, operands, attributes);
  }
  // The GPU's result of a graph with the op, by its kernel or its decomposition.
  std::vector<HostTensor> in_program(Op op, const std::vector<Operand>& operands, const Attributes& attributes) {
    return outputs_of(LoneNode(op, operands, attributes), device_, operands);
  }

  // Half a unit in the last place of a result near 1; more for fp32, because gradients may be differences of larger
  // sums.
  static double unit(DType dtype) { return dtype == DType::bf16 ? 0x1p-9 : dtype == DType::fp16 ? 0x1p-12 : 0x1p-20; }
  void expect_as_good_as_plain_ops(const std::vector<HostTensor>& found, Op op, const std::vector<Operand>& operands,
                                   const AttentionCase& c) {
    expect_as_good(found, reference_outputs(op, operands, c.attributes(op)),
                   in_plain_ops(op, operands, c.attributes(op)), op, c);
  }
  static void expect_as_good(const std::vector<HostTensor>& found, const std::vector<HostTensor>& expected,
                             const std::vector<HostTensor>& plain, Op op, const AttentionCase& c) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double bound = 2 * largest_difference(plain[i], expected[i]) +
                           2 * unit(found[i].type.dtype) * (0.3 + largest_of(expected[i]));
      EXPECT_LE(largest_difference(found[i], expected[i]), bound) << name(op) << " output " << i << " of " << c.text();
    }
  }
  void expect_as_good_as_plain_ops(Op op, const std::vector<Operand>& operands, const AttentionCase& c) {
    expect_as_good_as_plain_ops(run_twice(op, operands, c), op, operands, c);
  }
  std::vector<HostTensor> run_twice(Op op, const std::vector<Operand>& operands, const AttentionCase& c) {
    NodeRun run(*device_, op, operands, c.attributes(op));
    return run_twice(run);
  }
  static std::vector<HostTensor> run_twice(NodeRun& run) {
    std::vector<HostTensor> found = run.launch();
    const std::vector<HostTensor> again = run.launch();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].data, again[i].data) << run.kernel().name() << " differs from run to run";
    }
    return found;
  }
  // Of every kernel that can run the node on this card, also those that are for larger or smaller problems, and for
  // heads up to `widest`.
  void expect_all_as_good_as_plain_ops(Op op, const std::vector<Operand>& operands, const AttentionCase& c,
                                       std::int64_t widest) {
    const LoneNode lone(op, operands, c.attributes(op));
    const cuda::CardFacts& card = cuda::CudaContext::of_card(0).card();
    const std::vector<HostTensor> expected = reference_outputs(op, operands, c.attributes(op));
    const std::vector<HostTensor> plain = in_plain_ops(op, operands, c.attributes(op));
    for (const cuda::KernelVariant& variant : cuda::kernel_variants()) {
      if (!variant.supports(card, lone.graph, lone.node()) || variant.tiling.width > widest) continue;
      SCOPED_TRACE(variant.entry);
      NodeRun run(*device_, op, operands, c.attributes(op),
                  [&](const KernelSpec& spec) { return variant.make(cuda::CudaContext::of_card(0), spec, variant); });
      expect_as_good(run_twice(run), expected, plain, op, c);
    }
  }

  bool runs_on_card(const AttentionCase& c) {
    const std::vector<Operand> operands = forward_operands(c);
    std::vector<Operand> all = {operands[0], operands[0], operands[1], operands[2], operands[0]};
    all.push_back(random(accumulator(c.dtype), {c.batch, c.queries}));
    const LoneNode lone(Op::attention_backward, all, c.attributes(Op::attention_backward));
    return device_->has_kernel(lone.graph, lone.node());
  }
  // The operands of backward, with some gradient of the output.
  std::vector<Operand> backward_operands(const std::vector<Operand>& operands, const std::vector<HostTensor>& results,
                                         const AttentionCase& c) {
    std::vector<Operand> all = {random(c.dtype, c.of_queries()), operands[0], operands[1], operands[2]};
    for (const HostTensor& result : results) all.push_back({dense_layout(result.type), result.data});
    return all;
  }
  void expect_agrees(const AttentionCase& c) {
    const std::vector<Operand> operands = forward_operands(c);
    expect_as_good_as_plain_ops(Op::attention, operands, c);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    expect_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c);
  }
  void expect_all_agree(const AttentionCase& c, std::int64_t widest = 256) {
    const std::vector<Operand> operands = forward_operands(c);
    expect_all_as_good_as_plain_ops(Op::attention, operands, c, widest);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    expect_all_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c, widest);
  }

  std::mt19937 random_{29};
};

}  // namespace ridgepoint::testing
