#include "inspect/precision/difference_remarks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

namespace ridgepoint::tables {
namespace {

using Numbers = std::span<const double>;

std::string counted(std::int64_t count, std::int64_t all) {
  return count == all ? fmt::format("all {} elements are", all)
                      : fmt::format("{} of {} elements {}", count, all, count == 1 ? "is" : "are");
}

std::string remark_on_numbers(const NamedDifference& of, Numbers theirs) {
  const auto is_none = [](double x) { return !std::isfinite(x); };
  const auto first = std::ranges::find_if(theirs, is_none);
  if (first == theirs.end()) return "";
  return fmt::format("{} NaN or infinite in the file, the first at {}",
                     counted(std::ranges::count_if(theirs, is_none), of.shape.elements()),
                     element_name(of.shape, first - theirs.begin()));
}

// "8 times what it should be (sqrt(64), and 64 is the head size)": a factor by the sizes that it may come from, to the
// digits that it is known to.
std::string words_of_factor(double factor, double error, const NamedSizes& sizes) {
  const double size_of_it = std::abs(factor);
  const auto is = [&](double value) { return std::abs(size_of_it / value - 1) < error; };
  std::string text =
      fmt::format("{:.6g} times what it should be", is(std::abs(std::round(factor))) ? std::round(factor) : factor);
  if (is(1)) return text;
  if (is(std::numbers::ln2)) return text + " (ln 2)";
  if (is(1 / std::numbers::ln2)) return text + " (1 / ln 2)";
  for (const auto& [name, size] : sizes) {
    if (size < 2) continue;
    const std::pair<double, std::string> forms[] = {{std::sqrt(size), fmt::format("sqrt({:g})", size)},
                                                    {1 / std::sqrt(size), fmt::format("1/sqrt({:g})", size)},
                                                    {size, ""},
                                                    {1 / size, fmt::format("1/{:g}", size)}};
    for (const auto& [value, form] : forms) {
      if (!is(value)) continue;
      return form.empty() ? fmt::format("{} ({})", text, name)
                          : fmt::format("{} ({}, and {:g} is {})", text, form, size, name);
    }
  }
  return text;
}

// The least-squares factor between both tensors, if the tensors agree within tolerance after multiplication by it.
std::string remark_on_factor(const NamedDifference& of, const HostTensor& ours, const HostTensor& theirs,
                             const NamedSizes& sizes) {
  const Numbers a = ours.as<double>(), b = theirs.as<double>();
  const double squares = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double factor = std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / squares;
  if (!std::isfinite(factor) || factor == 0 || a.size() < 2) return "";
  HostTensor divided(theirs.type);
  std::ranges::transform(b, divided.as<double>().begin(), [&](double x) { return x / factor; });
  const TensorDifference rest = compare_tensors(ours, divided, of.tolerance);
  if (rest.tolerance_ratio > 1) return "";
  const double error = std::max(1e-6, rest.relative_l2);  // of the factor, at the most
  if (std::abs(factor - 1) < error) return "";
  return words_of_factor(factor, error, sizes) + "; divided by that, it agrees";
}

// "[0:1, 2, 96:128]": the smallest box that has every element beyond tolerance.
std::string remark_on_place(const NamedDifference& of, Numbers ours, Numbers theirs) {
  const Shape& shape = of.shape;
  const auto strides = dense_strides(shape);
  const auto rank = static_cast<std::size_t>(shape.rank());
  std::vector<std::int64_t> first(rank, shape.elements()), last(rank, -1);
  std::int64_t zeros = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double allowed = of.tolerance.absolute + of.tolerance.relative * std::abs(theirs[i]);
    if (std::abs(ours[i] - theirs[i]) <= allowed) continue;
    zeros += theirs[i] == 0 ? 1 : 0;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      first[axis] = std::min(first[axis], rest / strides[axis]);
      last[axis] = std::max(last[axis], rest / strides[axis]);
      rest %= strides[axis];
    }
  }
  if (rank == 0 || last[0] < 0) return "";  // beyond tolerance as a whole alone
  std::vector<std::string> box;
  bool is_whole = true;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool is_all = first[axis] == 0 && last[axis] + 1 == shape[static_cast<int>(axis)];
    is_whole &= is_all;
    box.push_back(is_all                      ? ":"
                  : first[axis] == last[axis] ? std::to_string(first[axis])
                                              : fmt::format("{}:{}", first[axis], last[axis] + 1));
  }
  const std::int64_t beyond = of.difference.beyond;
  if (is_whole && zeros < beyond) return "";
  return fmt::format("{} beyond tolerance{}{}", counted(beyond, shape.elements()),
                     is_whole      ? ""
                     : beyond == 1 ? fmt::format(", at [{}]", fmt::join(box, ", "))
                                   : fmt::format(", all in [{}]", fmt::join(box, ", ")),
                     zeros < beyond ? ""
                     : beyond == 1  ? "; it is 0 in the file"
                                    : "; they are 0 in the file");
}

std::vector<std::int64_t> sizes_without_ones(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1) sizes.push_back(shape[axis]);
  }
  return sizes;
}

}  // namespace

std::string remark_on(const NamedDifference& of, const HostTensor& ours, const HostTensor& theirs,
                      const NamedSizes& sizes) {
  const HostTensor a = convert(ours, DType::fp64), b = convert(theirs, DType::fp64);
  if (std::string remark = remark_on_numbers(of, b.as<double>()); !remark.empty()) return remark;
  if (std::string remark = remark_on_factor(of, a, b, sizes); !remark.empty()) return remark;
  return remark_on_place(of, a.as<double>(), b.as<double>());
}

std::string remark_on_shape(const Shape& ours, const Shape& theirs) {
  if (ours == theirs) return "";
  std::vector<std::int64_t> a = sizes_without_ones(ours), b = sizes_without_ones(theirs);
  if (a == b) return fmt::format("; reshape it to {}", ours.to_string());
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b ? fmt::format("; its axes stand in another order: transpose it to {}", ours.to_string()) : "";
}

}  // namespace ridgepoint::tables
