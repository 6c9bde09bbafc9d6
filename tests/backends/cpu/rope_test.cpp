// Rotary embedding on the CPU against the formula in double.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "backends/cpu/device.h"
#include "backends/cpu/kernel_harness.h"

namespace ridgepoint {
namespace {

using testing::KernelRun;
using testing::LayoutChoice;
using testing::Operand;

class CpuRope : public ::testing::Test {
 protected:
  ~CpuRope() override { make_cpu_device(); }  // back to every core

  KernelRun rotate(const Operand& x, int axis, bool inverse = false) {
    const std::int64_t positions = x.layout.shape[axis];
    const std::int64_t half = x.layout.shape[-1] / 2;
    Operand cosines = testing::make_operand(DType::fp32, {positions, half});
    Operand sines = cosines;
    for (std::int64_t i = 0; i < positions * half; ++i) {
      const std::int64_t position = i / half, pair = i % half;
      const double angle = static_cast<double>(position) / std::pow(100.0, static_cast<double>(pair) / 7.0);
      store_element(DType::fp32, cosines.storage.data() + static_cast<std::size_t>(i) * sizeof(float), std::cos(angle));
      store_element(DType::fp32, sines.storage.data() + static_cast<std::size_t>(i) * sizeof(float), std::sin(angle));
    }
    KernelRun run(*device_, Op::rope, {x, cosines, sines}, {{"axis", std::int64_t{axis}}, {"inverse", inverse}});
    run.launch();
    return run;
  }

  std::shared_ptr<Device> device_ = testing::cpu_with_threads(2);
  std::mt19937 random_{13};
};

void expect_rotated(const KernelRun& run, int axis, bool inverse) {
  const Operand& x = run.operand(0);
  const Shape& shape = x.layout.shape;
  for (std::int64_t i = 0; i < shape.elements(); i += 2) {
    std::vector<std::int64_t> index = testing::unravel(shape, i);
    const std::array table = {index[static_cast<std::size_t>(axis)], index.back() / 2};
    const double cosine = run.operand(1).at(table);
    const double sine = inverse ? -run.operand(2).at(table) : run.operand(2).at(table);
    const double first = x.at(index);
    ++index.back();
    const double second = x.at(index);
    ASSERT_NEAR(run.at(i), first * cosine - second * sine, 1e-6) << "element " << i << " of " << shape.to_string();
    ASSERT_NEAR(run.at(i + 1), first * sine + second * cosine, 1e-6) << "element " << i + 1;
  }
}

TEST_F(CpuRope, agrees_with_the_formula_for_every_width_and_axis) {
  for (const std::int64_t width : {2, 6, 30, 32, 64, 66, 128}) {
    for (const int axis : {0, 1, 2}) {
      for (const bool inverse : {false, true}) {
        const Operand x = testing::random_operand(DType::fp32, {3, 7, 5, width}, random_);
        expect_rotated(rotate(x, axis, inverse), axis, inverse);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CpuRope, rounds_bf16_once) {
  for (const std::int64_t width : {2, 6, 32, 64, 66}) {
    for (const LayoutChoice& layout : {LayoutChoice{}, LayoutChoice{.storage_order = {3, 2, 1, 0}}}) {
      const Operand x = testing::random_operand(DType::bf16, {3, 7, 5, width}, random_, layout);
      const KernelRun run = rotate(x, 1);
      for (std::int64_t i = 0; i < x.layout.shape.elements(); i += 2) {
        std::vector<std::int64_t> index = testing::unravel(x.layout.shape, i);
        const std::array table = {index[1], index.back() / 2};
        const double first = x.at(index);
        ++index.back();
        const double exact = first * run.operand(1).at(table) - x.at(index) * run.operand(2).at(table);
        ASSERT_NEAR(run.at(i), exact, std::abs(exact) / 256 + 1e-6) << "width " << width << ", element " << i;
      }
    }
  }
}

TEST_F(CpuRope, reads_any_strides) {
  const std::vector<LayoutChoice> layouts = {{.storage_order = {0, 2, 1, 3}},
                                             {.storage_order = {3, 2, 1, 0}, .padding = 1},
                                             {.flipped = {1, 3}},
                                             {.broadcast = {0, 2}},
                                             {.broadcast = {3}}};
  for (const LayoutChoice& layout : layouts) {
    const Operand x = testing::random_operand(DType::fp32, {2, 9, 4, 34}, random_, layout);
    expect_rotated(rotate(x, 1), 1, false);
  }
  expect_rotated(rotate(testing::immediate_operand(DType::fp32, {2, 3, 4}, 1.5), 1), 1, false);
}

TEST_F(CpuRope, inverse_undoes_it) {
  const Operand x = testing::random_operand(DType::fp32, {4, 33, 2, 64}, random_);
  Operand rotated = x;
  rotated.storage = rotate(x, 1).output.data;
  const KernelRun back = rotate(rotated, 1, true);
  for (std::int64_t i = 0; i < x.layout.shape.elements(); ++i) {
    ASSERT_NEAR(back.at(i), x.at(testing::unravel(x.layout.shape, i)), 1e-6);
  }
}

TEST_F(CpuRope, takes_a_negative_axis_and_empty_shapes) {
  const Operand x = testing::random_operand(DType::fp32, {3, 5, 8}, random_);
  EXPECT_EQ(rotate(x, -2).output.data, rotate(x, 1).output.data);
  EXPECT_TRUE(rotate(testing::random_operand(DType::fp32, {0, 5, 8}, random_), 1).output.data.empty());
  EXPECT_TRUE(rotate(testing::random_operand(DType::fp32, {3, 5, 0}, random_), 1).output.data.empty());
}

TEST_F(CpuRope, does_not_depend_on_the_thread_count) {
  const Operand x = testing::random_operand(DType::fp32, {4, 64, 3, 64}, random_, {.storage_order = {0, 2, 1, 3}});
  const std::vector<std::byte> first = rotate(x, 1).output.data;
  for (const int threads : {1, 2, 3, 5}) {
    device_ = testing::cpu_with_threads(threads);
    EXPECT_EQ(rotate(x, 1).output.data, first) << threads << " threads";
  }
}

}  // namespace
}  // namespace ridgepoint
