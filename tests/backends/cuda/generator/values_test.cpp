// Generated kernels with special values, dtypes, layouts and in-place results, without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/kernel_harness.h"
#include "backends/cuda/generator/emulated_device.h"

namespace ridgepoint {
namespace {

using testing::LayoutChoice;
using testing::Operand;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct KernelCase {
  Op op;
  std::vector<Operand> operands;
  Attributes attributes = {};
};

Operand operand_of(DType dtype, const Shape& shape, const std::vector<double>& values,
                   const LayoutChoice& choice = {}) {
  Operand operand = testing::make_operand(dtype, shape, choice);
  const std::size_t size = size_bytes(dtype);
  for (std::size_t i = 0; i < operand.storage.size() / size; ++i) {
    store_element(dtype, operand.storage.data() + i * size, values[i % values.size()]);
  }
  return operand;
}

// Compares a kernel on the emulated GPU with the reference back end, element by element, up to `ulps` of fp32.
void expect_equal(const std::vector<KernelCase>& cases, double ulps) {
  testing::Emulator emulator(4);
  testing::EmulatedDevice device(emulator);
  for (const KernelCase& what : cases) testing::KernelRun(device, what.op, what.operands, what.attributes);
  emulator.build();
  const std::shared_ptr<Device> reference = make_reference_device();
  for (const KernelCase& what : cases) {
    testing::KernelRun found(device, what.op, what.operands, what.attributes);
    testing::KernelRun expected(*reference, what.op, what.operands, what.attributes);
    found.launch();
    expected.launch();
    for (std::int64_t i = 0; i < expected.output.type.elements(); ++i) {
      const double a = found.at(i);
      const double b = expected.at(i);
      const bool same = (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b)) ||
                        std::abs(a - b) <= ulps * 1.2e-7 * std::abs(b);
      ASSERT_TRUE(same) << found.kernel().name() << " of " << what.operands[0].type().to_string() << " element " << i
                        << ": " << a << " instead of " << b;
    }
  }
}

const std::vector<double> kAwkward = {
    0.0,       -0.0,       1.0,  -1.0, 0.5,   1.5,    2.5,       -2.5,       3.0e5,      65504.0,
    65519.9,   65520.0,    1e-7, 6e-8, 1e-40, 3.4e38, 1.0000001, 1.00390625, 1.01171875, 1.0 + 1.0 / 256 + 1e-9,
    kInfinity, -kInfinity, kNan};
const std::vector<double> kWhole = {0, 1, -1, 2, 100, -128, 16777217, 1 << 20, 2130706432.0};

using GeneratedValues = testing::Emulated;

TEST_F(GeneratedValues, convert_between_all_dtypes_as_the_reference_does) {
  std::vector<KernelCase> cases;
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      const bool whole = !is_floating(from) || !is_floating(to);  // integers cannot represent other reals
      const std::vector<double> bools = {0, 1, 1, 0, 1};
      const auto& values = from == DType::boolean         ? bools
                           : whole && from != DType::fp16 ? kWhole
                           : whole                        ? bools
                                                          : kAwkward;
      for (const Shape& shape : {Shape{64}, Shape{7, 5}}) {
        cases.push_back({Op::cast, {operand_of(from, shape, values)}, {{"dtype", std::string(name(to))}}});
      }
    }
  }
  expect_equal(cases, 0);
}

// Integers that a double cannot represent, and ties of bf16 that a difference of 1 decides.
TEST_F(GeneratedValues, keep_every_bit_of_64_bit_integers) {
  std::vector<std::int64_t> values;
  for (const int bit : {24, 31, 32, 53, 62}) {
    const std::int64_t tie = (std::int64_t{1} << bit) + (std::int64_t{1} << (bit - 8));
    for (const std::int64_t near : {-1, 0, 1}) values.insert(values.end(), {tie + near, -tie + near});
  }
  values.insert(values.end(), {INT64_MAX, INT64_MIN, INT64_MAX - 1});
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const std::vector<std::int64_t> rotated = [&] {
    std::vector<std::int64_t> result(values.begin() + 2, values.end());
    result.insert(result.end(), values.begin(), values.begin() + 2);
    return result;
  }();
  std::vector<KernelCase> cases;
  const Operand a = testing::index_operand(shape, values);
  const Operand b = testing::index_operand(shape, rotated);
  for (const char* to : {"bf16", "fp16", "fp32", "fp64", "int32", "bool"}) {
    cases.push_back({Op::cast, {a}, {{"dtype", std::string(to)}}});
  }
  for (const Op op : {Op::equal, Op::less, Op::less_equal}) cases.push_back({op, {a, b}});
  expect_equal(cases, 0);
}

TEST_F(GeneratedValues, let_nan_win_every_maximum_and_minimum) {
  std::vector<KernelCase> cases;
  const std::vector<double> shifted(kAwkward.rbegin(), kAwkward.rend());
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16}) {
    for (const Op op : {Op::maximum, Op::minimum}) {
      cases.push_back({op, {operand_of(dtype, {23, 23}, kAwkward), operand_of(dtype, {23, 23}, shifted)}});
      cases.push_back({op, {operand_of(dtype, {23}, kAwkward), operand_of(dtype, {23, 1}, kAwkward)}});
    }
    for (const std::int64_t axis : {0, 1}) {
      const Attributes over = {{"axes", std::vector<std::int64_t>{axis}}, {"keep_dims", false}};
      cases.push_back({Op::reduce_max, {operand_of(dtype, {40, 46}, kAwkward)}, over});
      cases.push_back({Op::reduce_max, {operand_of(dtype, {3, 4096}, {1.0, kNan, 2.0})}, over});
    }
  }
  expect_equal(cases, 0);
}

TEST_F(GeneratedValues, compare_and_choose_as_the_reference_does) {
  std::vector<KernelCase> cases;
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::int64, DType::int32}) {
    const std::vector<double>& values = is_floating(dtype) ? kAwkward : kWhole;
    for (const Op op : {Op::equal, Op::less, Op::less_equal}) {
      cases.push_back({op, {operand_of(dtype, {9, 23}, values), operand_of(dtype, {23}, values)}});
    }
    const Operand condition = operand_of(DType::boolean, {9, 64}, {0, 1, 1, 0, 1});
    cases.push_back({Op::where, {condition, operand_of(dtype, {9, 64}, values), operand_of(dtype, {9, 1}, values)}});
  }
  expect_equal(cases, 0);
}

TEST_F(GeneratedValues, follow_functions_to_their_limits) {
  std::vector<KernelCase> cases;
  const std::vector<double> values = {0.0,   1.0,   -1.0, 87.0,  -87.0,     88.5,       -103.0, 1e-8,
                                      -1e-8, 1e-30, 20.0, -20.0, kInfinity, -kInfinity, kNan};
  for (const DType dtype : {DType::fp32, DType::fp64}) {
    for (const Op op : {Op::exp, Op::expm1, Op::sigmoid, Op::tanh, Op::log, Op::sqrt, Op::rsqrt, Op::neg}) {
      cases.push_back({op, {operand_of(dtype, {60}, values)}});
    }
    cases.push_back({Op::div, {operand_of(dtype, {15}, values), operand_of(dtype, {15, 1}, values)}});
  }
  expect_equal(cases, 4);
}

TEST_F(GeneratedValues, have_constants_to_the_last_bit) {
  const std::vector<double> reals = {0.0,       -0.0,      0.1,       -1.0 / 3,
                                     1e39,      -1e39,     kInfinity, -kInfinity,
                                     kNan,      1e-45,     5e-324,    -1e-310,
                                     1e308,     65504.0,   65520.0,   16777217.0,
                                     0x1p-149,  0x1p-1074, 1e-8,      3.4028234663852886e38,
                                     6.1035e-5, 1e22,      5e20,      3.4028235677973366e38};
  const std::vector<double> wholes = {0, -5, 2147483647.0, -2147483648.0};
  const std::vector<double> longer = {0, -5, 0x1p62, -0x1p63};
  std::vector<KernelCase> cases;
  for (const DType dtype : kAllDTypes) {
    const std::vector<double>& values = is_floating(dtype) ? reals : dtype == DType::int64 ? longer : wholes;
    for (const double value : values) {
      cases.push_back({Op::copy, {testing::immediate_operand(dtype, {3}, value)}});
      cases.push_back({Op::where,
                       {operand_of(DType::boolean, {3}, {0, 1, 0}), operand_of(dtype, {3}, {1}),
                        testing::immediate_operand(dtype, {3}, value)}});
    }
  }
  expect_equal(cases, 0);
}

TEST_F(GeneratedValues, read_operands_however_they_lie) {
  std::mt19937 random(3);
  std::vector<KernelCase> cases;
  const std::vector<LayoutChoice> layouts = {{},
                                             {.storage_order = {2, 1, 0}},
                                             {.storage_order = {0, 2, 1}},
                                             {.storage_order = {1, 0, 2}, .padding = 3},
                                             {.broadcast = {0}},
                                             {.broadcast = {2}},
                                             {.flipped = {0, 2}},
                                             {.storage_order = {2, 0, 1}, .flipped = {1}, .padding = 1}};
  for (const LayoutChoice& layout : layouts) {
    for (const Shape& shape : {Shape{6, 40, 64}, Shape{3, 5, 7}, Shape{2, 3, 600}}) {
      for (const DType dtype : {DType::fp32, DType::bf16}) {
        const Operand x = testing::random_operand(dtype, shape, random, layout);
        cases.push_back({Op::copy, {x}});
        cases.push_back({Op::add, {x, testing::random_operand(dtype, shape, random)}});
        for (std::int64_t axis = 0; axis < 3; ++axis) {
          cases.push_back({Op::reduce_max, {x}, {{"axes", std::vector<std::int64_t>{axis}}, {"keep_dims", false}}});
        }
      }
    }
  }
  expect_equal(cases, 0);
}

TEST_F(GeneratedValues, may_take_the_place_of_an_operand) {
  std::mt19937 random(5);
  testing::Emulator emulator(4);
  testing::EmulatedDevice device(emulator);
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {1003}}, Role::data);
  const Value y = input(graph, "y", {DType::fp32, {1003}}, Role::data);
  const Node& node = graph.producer_node(add(graph, x, y));
  const TensorLayout layout = dense_layout(graph.type(x));
  const std::array inputs = {layout, layout};
  const std::array outputs = {layout};
  device.make_kernel({graph, node, inputs, outputs});
  emulator.build();
  const std::unique_ptr<Kernel> kernel = device.make_kernel({graph, node, inputs, outputs});
  std::vector<float> a(1008);
  std::vector<float> b(1008);
  std::uniform_real_distribution<float> uniform;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = uniform(random), b[i] = uniform(random);
  const std::vector<float> before = a;
  std::array<void*, 2> operands = {a.data(), b.data()};
  void* result = a.data();
  kernel->launch({operands.data(), &result, nullptr});
  for (std::size_t i = 0; i < 1003; ++i) ASSERT_EQ(a[i], before[i] + b[i]) << i;
  for (std::size_t i = 1003; i < a.size(); ++i) ASSERT_EQ(a[i], before[i]) << i;
}

}  // namespace
}  // namespace ridgepoint
