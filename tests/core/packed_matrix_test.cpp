// Matrices in 4 and 8 bits against the published definitions, written again in double.
#include "core/packed/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/dynamic_code.h"
#include "core/packed/float8_weights.h"
#include "core/types/float8.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

std::vector<float> random_elements(const PackedMatrix& matrix, float deviation = 0.02F) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> elements(static_cast<std::size_t>(matrix.elements()));
  std::ranges::generate(elements, [&] { return normal(random); });
  return elements;
}

std::vector<std::byte> packed(const PackedMatrix& matrix, const std::vector<float>& elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
  pack(matrix, elements_of(elements), bytes);
  return bytes;
}

std::vector<float> unpacked(const PackedMatrix& matrix, const std::vector<std::byte>& bytes) {
  std::vector<float> elements(static_cast<std::size_t>(matrix.elements()));
  unpack(matrix, bytes.data(), 0, matrix.elements(), elements.data());
  return elements;
}

// The nearest of the levels, by comparing with all.
template <typename Levels>
double nearest(const Levels& levels, double value) {
  return *std::ranges::min_element(levels,
                                   [&](double a, double b) { return std::abs(a - value) < std::abs(b - value); });
}

std::vector<double> nf4_by_definition(const std::vector<float>& elements) {
  std::vector<double> magnitudes;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i % 64 == 0) magnitudes.push_back(0);
    magnitudes.back() = std::max(magnitudes.back(), std::abs(static_cast<double>(elements[i])));
  }
  double mean = 0;
  for (const double magnitude : magnitudes) mean += magnitude / static_cast<double>(magnitudes.size());
  std::vector<double> stored(magnitudes.size());
  for (std::size_t begin = 0; begin < magnitudes.size(); begin += 256) {
    const std::size_t end = std::min(begin + 256, magnitudes.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(magnitudes[i] - mean));
    for (std::size_t i = begin; i < end; ++i) {
      const double share = largest == 0 ? 0 : (magnitudes[i] - mean) / largest;
      stored[i] = nearest(dynamic_levels(DType::dynamic8), share) * largest + mean;
    }
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double share = magnitudes[i / 64] == 0 ? 0 : static_cast<double>(elements[i]) / magnitudes[i / 64];
    result.push_back(nearest(kNf4Levels, share) * stored[i / 64]);
  }
  return result;
}

struct Size {
  std::int64_t rows, columns;
};

class PackedMatrices : public ::testing::TestWithParam<Size> {};

TEST_P(PackedMatrices, are_the_definition_of_nf4) {
  const PackedMatrix matrix{BaseWeights::nf4, GetParam().rows, GetParam().columns};
  const std::vector<float> elements = random_elements(matrix);
  const std::vector<double> expected = nf4_by_definition(elements);
  const std::vector<float> found = unpacked(matrix, packed(matrix, elements));
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-8) << i;
}

// With scales in fp32 a code times its scale is all.
TEST_P(PackedMatrices, are_the_definition_of_nf4_single) {
  const PackedMatrix matrix{BaseWeights::nf4_single, GetParam().rows, GetParam().columns};
  const std::vector<float> elements = random_elements(matrix);
  const std::vector<float> found = unpacked(matrix, packed(matrix, elements));
  for (std::size_t i = 0; i < found.size(); ++i) {
    float largest = 0;
    for (std::size_t j = i / 64 * 64; j < std::min(i / 64 * 64 + 64, found.size()); ++j)
      largest = std::max(largest, std::abs(elements[j]));
    ASSERT_NEAR(found[i], nearest(kNf4Levels, elements[i] / static_cast<double>(largest)) * largest, 2e-8) << i;
  }
}

TEST_P(PackedMatrices, are_the_definition_of_int8) {
  const PackedMatrix matrix{BaseWeights::int8, GetParam().rows, GetParam().columns};
  const std::vector<float> elements = random_elements(matrix);
  const std::vector<float> found = unpacked(matrix, packed(matrix, elements));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto begin = static_cast<std::size_t>(row * matrix.columns);
    double largest = 0;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(matrix.columns); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(elements[i])));
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(matrix.columns); ++i)
      ASSERT_NEAR(found[i], std::round(elements[i] * 127 / largest) * largest / 127, 2e-8) << i;
  }
}

float rounded_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffU + (bits >> 16U & 1U)) & 0xffff0000U);
}

// The formula of `quantise` for the matrix in bf16, one rounding an operation.
TEST_P(PackedMatrices, are_the_definition_of_fp8) {
  const PackedMatrix matrix{BaseWeights::fp8, GetParam().rows, GetParam().columns};
  const std::vector<float> elements = random_elements(matrix);
  const std::vector<std::byte> bytes = packed(matrix, elements);
  ASSERT_EQ(matrix.bytes(), matrix.elements() + 4);
  float scale = 0;
  std::memcpy(&scale, bytes.data() + matrix.elements(), sizeof scale);
  const float largest =
      rounded_to_bf16(std::abs(*std::ranges::max_element(elements, {}, [](float x) { return std::abs(x); })));
  EXPECT_EQ(scale, largest / 448);
  const float factor = 448 / largest;
  const std::vector<float> found = unpacked(matrix, bytes);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::uint8_t code = float8_code(DType::e4m3, rounded_to_bf16(elements[i]) * factor);
    ASSERT_EQ(bytes[i], std::byte{code}) << i;
    ASSERT_EQ(found[i], float8_values(DType::e4m3)[code] * scale) << i;
  }
}

// Any stretch of elements is what the whole has there.
TEST_P(PackedMatrices, are_read_in_parts) {
  for (const BaseWeights format : {BaseWeights::nf4, BaseWeights::nf4_single, BaseWeights::int8, BaseWeights::fp8}) {
    const PackedMatrix matrix{format, GetParam().rows, GetParam().columns};
    const std::vector<std::byte> bytes = packed(matrix, random_elements(matrix));
    const std::vector<float> whole = unpacked(matrix, bytes);
    const std::int64_t first = matrix.elements() / 3, count = matrix.elements() - first;
    std::vector<float> part(static_cast<std::size_t>(count));
    unpack(matrix, bytes.data(), first, count, part.data());
    EXPECT_TRUE(std::ranges::equal(part, std::span(whole).subspan(static_cast<std::size_t>(first))));
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, PackedMatrices,
                         ::testing::Values(Size{64, 64}, Size{1, 1}, Size{3, 5}, Size{7, 37}, Size{300, 129},
                                           Size{1, 64 * 256 + 1}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.rows) + "x" + std::to_string(tested.param.columns);
                         });

// The first element of a pair has the upper half of the byte, and 1 and -1 are the codes 15 and 0. What a last element
// has beside it is the code of 0.
TEST(PackedMatrix, has_the_bytes_of_bitsandbytes) {
  const PackedMatrix matrix{BaseWeights::nf4, 1, 5};
  const std::vector<std::byte> bytes = packed(matrix, {-2, 2, 0, 1, 0.5F});
  EXPECT_EQ(bytes[0], std::byte{0x0F});
  EXPECT_EQ(bytes[1], std::byte{0x7C});
  EXPECT_EQ(bytes[2], std::byte{0xA7});
  EXPECT_EQ(matrix.bytes(), 16 + 16 + 16);
  float mean = 0;
  std::memcpy(&mean, bytes.data() + matrix.mean(), sizeof mean);
  EXPECT_EQ(mean, 2);
}

TEST(PackedMatrix, takes_4_127_bits_an_element_or_4_5) {
  for (const auto& [format, bits] : {std::pair(BaseWeights::nf4, 4.127), std::pair(BaseWeights::nf4_single, 4.5)}) {
    const PackedMatrix matrix{format, 4096, 4096};
    EXPECT_NEAR(static_cast<double>(matrix.bytes()) * 8 / static_cast<double>(matrix.elements()), bits, 1e-3);
  }
}

// The relative error of normal numbers that the format is made for.
TEST(PackedMatrix, has_the_error_of_its_format) {
  for (const auto& [format, most] :
       {std::pair(BaseWeights::nf4, 0.1), std::pair(BaseWeights::int8, 0.01), std::pair(BaseWeights::fp8, 0.03)}) {
    const PackedMatrix matrix{format, 256, 256};
    const std::vector<float> elements = random_elements(matrix);
    const std::vector<float> found = unpacked(matrix, packed(matrix, elements));
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference += std::pow(found[i] - elements[i], 2);
      size += std::pow(elements[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / size), most);
    EXPECT_GT(std::sqrt(difference / size), most / 3);
  }
}

TEST(PackedMatrix, keeps_zeros) {
  for (const BaseWeights format : {BaseWeights::nf4, BaseWeights::nf4_single, BaseWeights::int8, BaseWeights::fp8}) {
    const PackedMatrix matrix{format, 2, 64};
    std::vector<float> elements = random_elements(matrix);
    std::fill_n(elements.begin(), 64, 0.0F);
    const std::vector<float> found = unpacked(matrix, packed(matrix, elements));
    EXPECT_TRUE(std::ranges::all_of(found.begin(), found.begin() + 64, [](float x) { return x == 0; }));
  }
}

Float8Weight given(const PackedMatrix& matrix, const std::vector<float>& elements) {
  return float8_weight(matrix, elements_of(elements));
}

std::vector<std::vector<std::byte>> together(const std::vector<Float8Weight>& weights) {
  std::vector<const Float8Weight*> all;
  for (const Float8Weight& weight : weights) all.push_back(&weight);
  return packed_together(all);
}

// As the rows of one matrix.
TEST(Float8Weights, side_by_side_have_the_codes_and_the_scale_of_one_matrix) {
  const PackedMatrix upper{BaseWeights::fp8, 3, 8}, lower{BaseWeights::fp8, 5, 8}, whole{BaseWeights::fp8, 8, 8};
  const std::vector<float> elements = random_elements(whole);
  const std::vector<float> first(elements.begin(), elements.begin() + 24), rest(elements.begin() + 24, elements.end());
  const std::vector<std::byte> expected = packed(whole, elements);
  const auto found = together({given(upper, first), given(lower, rest)});
  EXPECT_TRUE(std::equal(found[0].begin(), found[0].begin() + 24, expected.begin()));
  EXPECT_TRUE(std::equal(found[1].begin(), found[1].end(), expected.begin() + 24));
  EXPECT_TRUE(std::equal(found[0].begin() + 24, found[0].end(), expected.begin() + 64)) << "one scale";
  EXPECT_EQ(together({{upper, {}, found[0]}, {lower, {}, found[1]}}), found) << "bytes of one scale stay";
}

TEST(Float8Weights, of_a_smaller_scale_are_rounded_to_the_larger) {
  const PackedMatrix matrix{BaseWeights::fp8, 4, 64};
  const std::vector<float> elements = random_elements(matrix);
  const auto found = together({{matrix, {}, packed(matrix, elements)}, given(matrix, random_elements(matrix, 0.1F))});
  const std::vector<float> kept = unpacked(matrix, found[0]);
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_NEAR(kept[i], elements[i], std::abs(elements[i]) / 8 + 1e-5);
  EXPECT_NE(found[0], packed(matrix, elements));
}

TEST(PackedMatrix, refuses_what_is_not_finite) {
  const PackedMatrix matrix{BaseWeights::nf4, 1, 2}, in_fp8{BaseWeights::fp8, 1, 2};
  std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> elements = {1, bad};
    EXPECT_THAT(error_of([&] { pack(matrix, elements_of(elements), bytes); }), HasSubstr("not finite"));
    EXPECT_THAT(error_of([&] { given(in_fp8, elements); }), HasSubstr("not finite"));
  }
}

TEST(PackedMatrix, packs_rows_of_heads_in_the_order_of_a_file) {
  for (const BaseWeights format : {BaseWeights::nf4, BaseWeights::nf4_single, BaseWeights::int8}) {
    const PackedMatrix matrix{format, 12, 50, {.head_size = 6, .rotated = 4, .kept = 1}};
    const PackedMatrix of_file{format, 12, 50};
    std::vector<float> ours(600), file(600), widened(600), part(77);
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i] = std::sin(static_cast<float>(i * i));
    for (std::size_t row = 0; row < 12; ++row) {
      // Rows 1, 2, 3, 4 of a head are 1, 3, 2, 4 of the file's.
      const std::size_t other = row % 6 == 2 ? row + 1 : row % 6 == 3 ? row - 1 : row;
      std::copy_n(ours.begin() + static_cast<std::ptrdiff_t>(row * 50), 50,
                  file.begin() + static_cast<std::ptrdiff_t>(other * 50));
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes())), expected(bytes.size());
    pack(matrix, elements_of(ours), bytes);
    pack(of_file, elements_of(file), expected);
    EXPECT_EQ(bytes, expected);
    unpack(matrix, bytes.data(), 0, 600, widened.data());
    unpack(of_file, bytes.data(), 150, 50, file.data());
    EXPECT_TRUE(std::equal(file.begin(), file.begin() + 50, widened.begin() + 100));  // its row 3 is this row 2
    unpack(matrix, bytes.data(), 90, 77, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), widened.begin() + 90));
  }
}

}  // namespace
}  // namespace ridgepoint
