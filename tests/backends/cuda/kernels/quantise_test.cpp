// Codes of 8 bits on the GPU have the bits of the reference back end's, and so have their scales; products of them have
// its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/reference/reference_device.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

// Numbers of many magnitudes, of which one may be special.
HostTensor matrix_of(DType dtype, const Shape& shape, double special = 1) {
  std::mt19937 random(static_cast<unsigned>(shape.elements()));
  std::normal_distribution<double> normal;
  HostTensor tensor({dtype, shape});
  const std::size_t size = size_bytes(dtype);
  for (std::size_t i = 0; i < tensor.data.size(); i += size)
    store_element(dtype, tensor.data.data() + i, std::ldexp(normal(random), -static_cast<int>(random() % 14)));
  store_element(dtype, tensor.data.data() + tensor.data.size() / 2 / size * size, special);
  return tensor;
}

Graph quantising(DType dtype, const Shape& shape, DType codes, const QuantiseLayout& layout) {
  Graph graph;
  const Quantised made = quantise(graph, input(graph, "x", {dtype, shape}, Role::data), codes, layout);
  if (layout.rows) graph.add_output("rows", made.rows);
  if (layout.columns) graph.add_output("columns", made.columns);
  graph.add_output("scale", made.scale);
  return graph;
}

// What the kernel before it found: the largest magnitude of each row.
Graph quantising_with_magnitudes(DType dtype, const Shape& shape, const QuantiseLayout& layout) {
  Graph graph = quantising(dtype, shape, DType::e4m3, layout);
  const NodeId made = graph.producer(graph.outputs().back().value);
  graph.set_insertion_before(made);
  const Value x = graph.node(made).inputs[0];
  const Value wide = dtype == DType::fp32 ? x : cast(graph, x, DType::fp32);
  const Value magnitudes = reduce_max(graph, maximum(graph, wide, neg(graph, wide)), {1});
  graph.node(made).inputs.push_back(magnitudes);
  graph.set_insertion_at_end();
  return graph;
}

// A NaN may have any bits.
bool are_same(const HostTensor& scales, const HostTensor& expected) {
  return std::ranges::equal(scales.as<float>(), expected.as<float>(),
                            [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

struct OnCardQuantise : testing::OnCard {
  void expect_bits_of_reference(const Graph& graph, const HostTensor& x) {
    const Tensors inputs{{"x", x}};
    const Tensors expected = testing::run_graph(graph, make_reference_device(), inputs);
    for (int run = 0; run < 2; ++run) {
      for (const auto& [name, tensor] : testing::run_graph(graph, device_, inputs)) {
        EXPECT_TRUE(tensor.type.dtype == DType::fp32 ? are_same(tensor, expected.at(name))
                                                     : tensor.data == expected.at(name).data)
            << name << " of " << x.type.to_string();
      }
    }
  }
};

TEST_F(OnCardQuantise, has_the_bits_of_the_reference) {
  constexpr QuantiseLayout kLayouts[] = {{true, false}, {false, true}, {true, true}};
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const Shape& shape : {Shape{16, 16}, Shape{128, 64}, Shape{144, 80}, Shape{400, 1296}, Shape{5, 7}}) {
      for (const QuantiseLayout& layout : kLayouts) {
        for (const DType codes : {DType::e4m3, DType::e5m2})
          expect_bits_of_reference(quantising(dtype, shape, codes, layout), matrix_of(dtype, shape));
      }
    }
  }
}

TEST_F(OnCardQuantise, with_magnitudes_has_the_bits_of_the_reference) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const Shape& shape : {Shape{16, 16}, Shape{144, 80}, Shape{4096, 32}}) {
      const Graph graph = quantising_with_magnitudes(dtype, shape, {true, true});
      for (const double special : {1.0, static_cast<double>(INFINITY), std::nan("")})
        expect_bits_of_reference(graph, matrix_of(dtype, shape, special));
    }
  }
}

TEST_F(OnCardQuantise, has_the_bits_of_the_reference_for_zeros_infinities_and_nan) {
  const Shape shape{144, 80};
  const Graph graph = quantising(DType::bf16, shape, DType::e4m3, {true, true});
  expect_bits_of_reference(graph, HostTensor({DType::bf16, shape}));
  for (const double special : {static_cast<double>(INFINITY), static_cast<double>(-INFINITY), std::nan("")})
    expect_bits_of_reference(graph, matrix_of(DType::bf16, shape, special));
}

// Rows of many magnitudes, of which the first is zero.
TEST_F(OnCardQuantise, of_rows_and_in_columns_with_one_scale_has_the_bits_of_the_reference) {
  for (const DType codes : {DType::e4m3, DType::e5m2}) {
    for (const Shape& shape : {Shape{16, 16}, Shape{128, 128}, Shape{144, 80}, Shape{400, 1296}, Shape{5, 7}}) {
      Graph graph;
      const Value x = input(graph, "x", {DType::fp32, shape}, Role::data);
      const QuantisedRows made = quantise_rows(graph, x, codes);
      const Quantised turned = transpose_codes(graph, made.codes, made.scales);
      graph.add_output("codes", made.codes);
      graph.add_output("scales", made.scales);
      graph.add_output("columns", turned.columns);
      graph.add_output("scale", turned.scale);
      for (const double special : {1.0, static_cast<double>(INFINITY), std::nan("")}) {
        HostTensor values = matrix_of(DType::fp32, shape, special);
        for (std::int64_t i = 0; i < shape.elements(); ++i)
          values.as<float>()[static_cast<std::size_t>(i)] *= std::ldexp(1.0F, -static_cast<int>(i / shape[1] % 40));
        std::ranges::fill(values.as<float>().first(static_cast<std::size_t>(shape[1])), 0.0F);
        expect_bits_of_reference(graph, values);
      }
    }
  }
}

TEST_F(OnCardQuantise, in_columns_of_one_scale_has_the_bits_of_the_reference) {
  for (const DType codes : {DType::e4m3, DType::e5m2}) {
    for (const Shape& shape : {Shape{16, 16}, Shape{128, 128}, Shape{144, 80}, Shape{400, 1296}, Shape{5, 7}}) {
      Graph graph;
      const Quantised made = quantise(graph, input(graph, "x", {DType::bf16, shape}, Role::data), codes, {});
      const Quantised turned = transpose_codes(graph, made.rows, made.scale);
      graph.add_output("columns", turned.columns);
      graph.add_output("scale", turned.scale);
      graph.add_output("numbers", widen_codes(graph, made.rows, made.scale, DType::bf16));
      expect_bits_of_reference(graph, matrix_of(DType::bf16, shape));
    }
  }
}

// A step with adapters, whose frozen weights are stored in fp8.
TEST_F(OnCardQuantise, stored_weights_compute_to_the_bit_what_a_step_in_fp8_computes) {
  const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
  for (const Compile level : kAllCompiles) {
    std::vector<std::vector<std::byte>> losses;
    for (const BaseWeights format : {BaseWeights::as_is, BaseWeights::fp8}) {
      Program program(workload.build(), device_,
                      {.compile = {.mode = Mode::step,
                                   .precision = Precision::fp8,
                                   .level = level,
                                   .base_weights = format,
                                   .lora = LoraOptions{.rank = 4}}});
      initialise(program, workload, 3);
      program.run();
      program.run();
      program.synchronize();
      losses.push_back(program.read_output("loss").data);
    }
    EXPECT_EQ(losses[0], losses[1]) << name(level);
  }
}

TEST_F(OnCardQuantise, products_of_rows_have_the_values_of_the_reference) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{128, 256, 512}, {16, 16, 32}, {1040, 144, 2064}, {7, 9, 33}}) {
    for (const DType left : {DType::e4m3, DType::e5m2}) {
      Graph graph;
      const QuantisedRows x = quantise_rows(graph, input(graph, "x", {DType::bf16, {m, k}}, Role::data), left);
      const Quantised w = quantise(graph, input(graph, "w", {DType::bf16, {n, k}}, Role::parameter), DType::e4m3, {});
      const Value scales = broadcast(graph, w.scale, {n, 1});
      graph.add_output("y", scaled_matmul(graph, x.codes, x.scales, w.rows, scales, DType::bf16));
      const Tensors inputs{{"x", matrix_of(DType::bf16, {m, k})}, {"w", matrix_of(DType::bf16, {n, k})}};
      const HostTensor found = convert(testing::run_graph(graph, device_, inputs).at("y"), DType::fp64);
      const Tensors expected = testing::run_graph(graph, make_reference_device(), inputs);
      EXPECT_LT(testing::relative_error(found, convert(expected.at("y"), DType::fp64)), 4e-3) << m << ' ' << k;
    }
  }
}

TEST_F(OnCardQuantise, products_have_the_values_of_the_reference) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{128, 256, 384}, {16, 16, 16}, {1040, 144, 2064}, {7, 9, 33}}) {
    for (const double special : {1.0, static_cast<double>(INFINITY), std::nan("")}) {
      Graph graph;
      const Value x = input(graph, "x", {DType::bf16, {m, k}}, Role::data);
      const Value w = input(graph, "w", {DType::bf16, {n, k}}, Role::parameter);
      graph.add_output("y", make_value(graph, Op::matmul, {x, transpose(graph, w, {1, 0})}, {{"compute", "fp8"}}));
      const Tensors inputs{{"x", matrix_of(DType::bf16, {m, k}, special)}, {"w", matrix_of(DType::bf16, {n, k})}};
      const HostTensor found = convert(testing::run_graph(graph, device_, inputs).at("y"), DType::fp64);
      if (special == 1.0) {
        const Tensors expected = testing::run_graph(graph, make_reference_device(), inputs);
        EXPECT_LT(testing::relative_error(found, convert(expected.at("y"), DType::fp64)), 4e-3) << m << ' ' << k;
      } else {
        EXPECT_TRUE(std::ranges::all_of(found.as<double>(), [](double value) { return std::isnan(value); }));
      }
    }
  }
}

// Over what they add, in bf16 and fp32, as the gradients of a weight of several micro-batches do.
TEST_F(OnCardQuantise, products_add_as_the_reference_does) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{128, 256, 384}, {16, 16, 16}, {1040, 144, 2064}, {7, 9, 33}}) {
    for (const DType result : {DType::bf16, DType::fp32}) {
      Graph graph;
      const Value x = input(graph, "x", {DType::bf16, {k, m}}, Role::data);
      const Value w = input(graph, "w", {DType::bf16, {k, n}}, Role::data);
      const Value before = input(graph, "before", {result, {m, n}}, Role::data);
      const Value left = transpose(graph, x, {1, 0});
      const Attributes attributes = {{"compute", "fp8"}, {"left_codes", "e5m2"}};
      const Value once = make_value(graph, Op::matmul_add, {left, w, before}, attributes);
      graph.add_output("y", make_value(graph, Op::matmul_add, {left, w, once}, attributes));
      const Tensors inputs{{"x", matrix_of(DType::bf16, {k, m})},
                           {"w", matrix_of(DType::bf16, {k, n})},
                           {"before", matrix_of(result, {m, n})}};
      const HostTensor found = convert(testing::run_graph(graph, device_, inputs).at("y"), DType::fp64);
      const Tensors expected = testing::run_graph(graph, make_reference_device(), inputs);
      EXPECT_LT(testing::relative_error(found, convert(expected.at("y"), DType::fp64)),
                result == DType::fp32 ? 1e-3 : 4e-3)
          << m << ' ' << k << ' ' << name(result);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
