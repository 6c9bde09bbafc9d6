// Integers on the CPU and on the reference back end against formulas in this file.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/device.h"
#include "backends/reference/reference_device.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::run_graph;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Neighbouring integers that are equal in fp32, then in double, and the limits of 32 and 64 bits.
std::vector<std::int64_t> values() {
  std::vector<std::int64_t> all;
  for (const std::int64_t middle :
       {std::int64_t{0}, std::int64_t{1} << 24, std::int64_t{257}, std::int64_t{1} << 31, std::int64_t{1} << 32,
        std::int64_t{1} << 53, (std::int64_t{1} << 54) + (1 << 30)}) {
    for (std::int64_t near = -3; near <= 3; ++near) {
      all.push_back(middle + near);
      all.push_back(-middle + near);
    }
  }
  all.insert(all.end(), {kLeast, kLeast + 1, kMost, kMost - 1, 65504, 65519, 65520, 65536});
  // More than one tile, ending in an incomplete vector.
  for (std::int64_t i = 0; all.size() < 613; ++i) all.push_back((i * 0x9E3779B97F4A7C15LL) >> (i % 60));
  return all;
}

std::vector<std::int64_t> rotated(std::vector<std::int64_t> all) {
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) all[i] = all[i + 1];
  return all;
}

template <typename T>
HostTensor tensor(DType dtype, const Shape& shape, const std::vector<T>& elements) {
  HostTensor result(TensorType{dtype, shape});
  std::memcpy(result.data.data(), elements.data(), result.data.size());
  return result;
}

HostTensor int64_tensor(const std::vector<std::int64_t>& elements) {
  return tensor(DType::int64, {static_cast<std::int64_t>(elements.size())}, elements);
}

HostTensor int32_tensor(const std::vector<std::int64_t>& elements) {
  std::vector<std::int32_t> low;
  for (const std::int64_t element : elements) low.push_back(static_cast<std::int32_t>(element));
  return tensor(DType::int32, {static_cast<std::int64_t>(low.size())}, low);
}

// Rounds to nearest even with so many bits of mantissa; a long double represents every int64.
double nearest(std::int64_t value, int bits) {
  if (value == 0) return 0.0;
  const auto exact = static_cast<long double>(value);
  const int shift = std::ilogb(exact) - bits + 1;
  return static_cast<double>(std::ldexp(std::nearbyint(std::ldexp(exact, -shift)), shift));
}

struct Integers : ::testing::TestWithParam<std::string> {
  HostTensor run(Graph graph, Value result, const Tensors& inputs) const {
    graph.add_output("y", result);
    const auto device =
        GetParam() == "cpu" ? make_cpu_device({.threads = 2, .memory_limit_bytes = {}}) : make_reference_device();
    return run_graph(std::move(graph), device, inputs).at("y");
  }
  HostTensor cast_of(const HostTensor& x, DType to) const {
    Graph graph;
    const Value value = cast(graph, input(graph, "x", x.type, Role::data), to);
    return run(std::move(graph), value, {{"x", x}});
  }
};
INSTANTIATE_TEST_SUITE_P(All, Integers, ::testing::Values("cpu", "reference"),
                         [](const auto& test_info) { return test_info.param; });

TEST_P(Integers, compare_exactly) {
  const std::vector<std::int64_t> a = values();
  const std::vector<std::int64_t> b = rotated(a);
  for (const DType dtype : {DType::int64, DType::int32}) {
    const auto make = dtype == DType::int64 ? int64_tensor : int32_tensor;
    for (const Op op : {Op::equal, Op::less, Op::less_equal}) {
      const Tensors inputs{{"a", make(a)}, {"b", make(b)}};
      Graph graph;
      const Value x = input(graph, "a", inputs.at("a").type, Role::data);
      const Value y = input(graph, "b", inputs.at("b").type, Role::data);
      const Value result = op == Op::equal  ? equal(graph, x, y)
                           : op == Op::less ? less(graph, x, y)
                                            : less_equal(graph, x, y);
      const HostTensor found = run(std::move(graph), result, inputs);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const std::int64_t p = dtype == DType::int64 ? a[i] : static_cast<std::int32_t>(a[i]);
        const std::int64_t q = dtype == DType::int64 ? b[i] : static_cast<std::int32_t>(b[i]);
        const bool expected = op == Op::equal ? p == q : op == Op::less ? p < q : p <= q;
        EXPECT_EQ(found.as<std::uint8_t>()[i] != 0, expected) << p << ' ' << name(op) << ' ' << q;
      }
    }
  }
}

TEST_P(Integers, are_chosen_whole) {
  const std::vector<std::int64_t> a = values();
  const std::vector<std::int64_t> b = rotated(a);
  Graph graph;
  const Value x = input(graph, "a", int64_tensor(a).type, Role::data);
  const Value y = input(graph, "b", int64_tensor(b).type, Role::data);
  const Value limit = constant(graph, 16777217.0, DType::int64);
  const Value result = where(graph, less(graph, x, limit), where(graph, equal(graph, x, y), limit, y), x);
  const HostTensor found = run(std::move(graph), result, {{"a", int64_tensor(a)}, {"b", int64_tensor(b)}});
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t expected = a[i] < 16777217 ? (a[i] == b[i] ? 16777217 : b[i]) : a[i];
    EXPECT_EQ(found.as<std::int64_t>()[i], expected) << a[i] << ", " << b[i];
  }
}

// These two are equal in fp32.
TEST_P(Integers, constants_keep_their_digits) {
  for (const DType dtype : {DType::int64, DType::int32}) {
    Graph graph;
    const Value a = constant(graph, 16777217.0, dtype);
    const Value b = constant(graph, 16777216.0, dtype);
    const HostTensor found = run(std::move(graph), equal(graph, a, b), {});
    EXPECT_EQ(found.as<std::uint8_t>()[0], 0);
  }
}

TEST_P(Integers, have_constants_up_to_their_ends_and_none_past_them) {
  for (const double value : {1e300, -1e300, 0x1p63, double{NAN}}) {
    Graph graph;
    EXPECT_THROW(constant(graph, value, DType::int64), Error) << value;
    EXPECT_THROW(constant(graph, value, DType::int32), Error) << value;
  }
  Graph graph;
  EXPECT_THROW(constant(graph, 0x1p31, DType::int32), Error);
  const Value x = input(graph, "x", {DType::int64, {3}}, Role::data);
  const Value wide = constant(graph, -0x1p63, DType::int64);
  const Value narrow = cast(graph, constant(graph, -0x1p31, DType::int32), DType::int64);
  const Value result = where(graph, equal(graph, x, constant(graph, 1.0, DType::int64)), wide, narrow);
  const HostTensor found = run(std::move(graph), result, {{"x", int64_tensor({0, 1, 2})}});
  EXPECT_EQ(found.as<std::int64_t>()[1], kLeast);
  EXPECT_EQ(found.as<std::int64_t>()[2], INT32_MIN);
}

TEST_P(Integers, have_constants_that_no_double_holds) {
  constexpr std::int64_t kOdd = 9007199254740993;  // 2^53 + 1
  Graph graph;
  const Value x = input(graph, "x", {DType::int64, {3}}, Role::data);
  const Value odd = integer_constant(graph, kOdd, DType::int64);
  const Value result = where(graph, equal(graph, x, odd), integer_constant(graph, kOdd + 2, DType::int64), odd);
  const HostTensor found = run(std::move(graph), result, {{"x", int64_tensor({kOdd, kOdd - 1, 0})}});
  EXPECT_EQ(found.as<std::int64_t>()[0], kOdd + 2);
  EXPECT_EQ(found.as<std::int64_t>()[1], kOdd);
}

TEST_P(Integers, become_shorter_by_their_low_bits_and_longer_by_their_sign) {
  const std::vector<std::int64_t> all = values();
  const HostTensor narrow = cast_of(int64_tensor(all), DType::int32);
  const HostTensor wide = cast_of(int32_tensor(all), DType::int64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(narrow.as<std::int32_t>()[i], static_cast<std::int32_t>(all[i]));
    EXPECT_EQ(wide.as<std::int64_t>()[i], std::int64_t{static_cast<std::int32_t>(all[i])});
  }
}

TEST_P(Integers, become_floats_by_one_rounding) {
  const std::vector<std::int64_t> all = values();
  for (const auto& [dtype, bits] :
       {std::pair(DType::fp32, 24), std::pair(DType::bf16, 8), std::pair(DType::fp16, 11)}) {
    const HostTensor found = cast_of(int64_tensor(all), dtype);
    for (std::size_t i = 0; i < all.size(); ++i) {
      double expected = nearest(all[i], bits);
      if (dtype == DType::fp16 && std::fabs(expected) > 65504.0) expected = std::copysign(INFINITY, expected);
      EXPECT_EQ(load_element(dtype, found.data.data() + i * size_bytes(dtype)), expected)
          << all[i] << " to " << name(dtype);
    }
  }
}

TEST_P(Integers, are_true_where_they_are_not_zero) {
  const std::vector<std::int64_t> all = values();
  const HostTensor found = cast_of(int64_tensor(all), DType::boolean);
  const HostTensor back = cast_of(found, DType::int64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(found.as<std::uint8_t>()[i], all[i] != 0 ? 1 : 0) << all[i];
    EXPECT_EQ(back.as<std::int64_t>()[i], all[i] != 0 ? 1 : 0) << all[i];
  }
}

TEST_P(Integers, are_floats_cut_towards_zero_within_their_ends) {
  const std::vector<float> x{1e30F,     -1e30F,  NAN,      2.9F,    -2.9F,   INFINITY,
                             -INFINITY, 0x1p31F, -0x1p31F, 0x1p63F, -0x1p63F};
  const HostTensor found = tensor(DType::fp32, {static_cast<std::int64_t>(x.size())}, x);
  const HostTensor wide = cast_of(found, DType::int64);
  const HostTensor narrow = cast_of(found, DType::int32);
  const std::vector<std::int64_t> expected{
      kMost, kLeast, 0, 2, -2, kMost, kLeast, std::int64_t{1} << 31, -(std::int64_t{1} << 31), kMost, kLeast};
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(wide.as<std::int64_t>()[i], expected[i]) << x[i];
    EXPECT_EQ(narrow.as<std::int32_t>()[i], std::clamp<std::int64_t>(expected[i], INT32_MIN, INT32_MAX)) << x[i];
  }
}

TEST_P(Integers, are_read_through_views) {
  const std::vector<std::int64_t> all = values();
  const Shape shape{5, 100};
  const std::vector<std::int64_t> first(all.begin(), all.begin() + 500);
  Graph graph;
  const Value x = input(graph, "x", {DType::int64, shape}, Role::data);
  const Value flipped = flip(graph, transpose(graph, x, {1, 0}), 0);
  const Value row = reshape(graph, input(graph, "row", {DType::int64, {5}}, Role::data), {1, 5});
  const Value result = where(graph, less(graph, flipped, row), broadcast(graph, row, {100, 5}), flipped);
  const std::vector<std::int64_t> rows{0, 16777217, kMost, kLeast, 9007199254740993};
  const HostTensor found =
      run(std::move(graph), result, {{"x", tensor(DType::int64, shape, first)}, {"row", int64_tensor(rows)}});
  for (std::size_t i = 0; i < 100; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(found.as<std::int64_t>()[i * 5 + j], std::max(first[j * 100 + 99 - i], rows[j]));
    }
  }
}

TEST_P(Integers, count_columns_and_are_compared_with_what_is_no_column) {
  const std::vector<std::int64_t> targets{0, 3, 299, 300, -1, kMost, kLeast, (std::int64_t{1} << 32) + 3, 16777219};
  for (const Op op : {Op::equal, Op::less, Op::less_equal}) {
    Graph graph;
    const Value index = iota(graph, {9, 300}, 1, DType::int64);
    const Value target = reshape(graph, input(graph, "t", {DType::int64, {9}}, Role::data), {9, 1});
    const Value result = op == Op::equal  ? equal(graph, index, target)
                         : op == Op::less ? less(graph, index, target)
                                          : less_equal(graph, index, target);
    const HostTensor found = run(std::move(graph), cast(graph, result, DType::int32), {{"t", int64_tensor(targets)}});
    for (std::int64_t row = 0; row < 9; ++row) {
      for (std::int64_t column = 0; column < 300; ++column) {
        const std::int64_t t = targets[static_cast<std::size_t>(row)];
        const bool expected = op == Op::equal ? column == t : op == Op::less ? column < t : column <= t;
        ASSERT_EQ(found.as<std::int32_t>()[static_cast<std::size_t>(row * 300 + column)], expected ? 1 : 0) << t;
      }
    }
  }
}

// One row that is too long for fp32 indices.
TEST(CpuIntegers, count_past_what_fp32_holds) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 24) + 5;
  Graph graph;
  const Value index = iota(graph, {kCount}, 0, DType::int64);
  const Value last = constant(graph, static_cast<double>(kCount - 2), DType::int64);
  graph.add_output("y", cast(graph, equal(graph, index, last), DType::boolean));
  const HostTensor found =
      run_graph(std::move(graph), make_cpu_device({.threads = 2, .memory_limit_bytes = {}}), {}).at("y");
  const auto bytes = found.as<std::uint8_t>();
  for (std::int64_t i = kCount - 8; i < kCount; ++i)
    EXPECT_EQ(bytes[static_cast<std::size_t>(i)], i == kCount - 2 ? 1 : 0) << i;
}

// The target would be a valid column if it were rounded to fp32.
TEST(CpuIntegers, a_target_past_the_vocabulary_picks_nothing) {
  const std::int64_t out = (std::int64_t{1} << 33) + 2;
  std::vector<HostTensor> losses;
  for (const bool on_cpu : {true, false}) {
    Graph graph;
    const Value logits = input(graph, "logits", {DType::fp32, {3, 5}}, Role::data);
    const Value index = iota(graph, {3, 5}, 1, DType::int64);
    const Value target = reshape(graph, input(graph, "t", {DType::int64, {3}}, Role::data), {3, 1});
    const Value zero = constant(graph, 0.0, DType::fp32);
    graph.add_output("y", reduce_sum(graph, where(graph, equal(graph, index, target), logits, zero), {1}, false));
    std::vector<float> x(15);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 1.0F;
    const Tensors inputs{{"logits", tensor(DType::fp32, {3, 5}, x)}, {"t", int64_tensor({4, out, -1})}};
    losses.push_back(
        run_graph(std::move(graph), on_cpu ? make_cpu_device({}) : make_reference_device(), inputs).at("y"));
  }
  EXPECT_EQ(losses[0].as<float>()[0], 5.0F);
  EXPECT_EQ(losses[0].as<float>()[1], 0.0F);
  EXPECT_EQ(losses[0].as<float>()[2], 0.0F);
  EXPECT_EQ(losses[0].data, losses[1].data);
}

}  // namespace
}  // namespace ridgepoint
