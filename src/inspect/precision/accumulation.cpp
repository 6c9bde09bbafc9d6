#include "inspect/precision/accumulation.h"

#include <array>
#include <cmath>
#include <utility>

#include "ridgepoint/error.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint {
namespace {

// A double holds the exact sum of two numbers of the type, so rounding it gives the type's own addition.
double rounded(DType dtype, double value) {
  std::array<std::byte, 8> element{};
  store_element(dtype, element.data(), value);
  return load_element(dtype, element.data());
}

// Calls `add` at most `count` times. It returns whether the sum changed; once it does not change, it never will.
template <typename Add>
void repeat(std::int64_t count, const StopPoint& stop_point, Add add) {
  constexpr std::int64_t kBetweenStopPoints = 1 << 20;
  for (std::int64_t i = 0; i < count; ++i) {
    if (stop_point && i % kBetweenStopPoints == 0) stop_point();
    if (!add()) return;
  }
}

double plain_sum(DType dtype, double term, std::int64_t count, const StopPoint& stop_point) {
  double sum = 0;
  repeat(count, stop_point, [&] {
    const double before = std::exchange(sum, rounded(dtype, sum + term));
    return sum != before;
  });
  return sum;
}

double compensated_sum(DType dtype, double term, std::int64_t count, const StopPoint& stop_point) {
  double sum = 0;
  double lost = 0;
  repeat(count, stop_point, [&] {
    const double corrected = rounded(dtype, term - lost);
    const double next = rounded(dtype, sum + corrected);
    const double lost_before = std::exchange(lost, rounded(dtype, rounded(dtype, next - sum) - corrected));
    const double before = std::exchange(sum, next);
    return sum != before || lost != lost_before;
  });
  return sum;
}

struct Case {
  DType sum;
  DType term;
  bool cast = false;         // the statement shows the cast of the term, which does not change the result
  bool compensated = false;  // Kahan 1965: the next term includes what rounding lost
};

constexpr std::array kCases = {
    Case{DType::fp32, DType::fp32},
    Case{DType::fp16, DType::fp16},
    Case{DType::fp32, DType::fp16},
    Case{DType::fp32, DType::fp16, true},
    Case{DType::bf16, DType::bf16},
    Case{DType::fp32, DType::bf16},
    Case{DType::fp32, DType::fp32, false, true},
    Case{DType::fp16, DType::fp16, false, true},
    Case{DType::bf16, DType::bf16, false, true},
};

std::string statement_of(const Case& which) {
  const std::string sum(name(which.sum));
  const std::string term(name(which.term));
  const std::string added = which.cast ? sum + "(" + term + ")" : term;
  return sum + " += " + added + (which.compensated ? ", compensated" : "");
}

}  // namespace

std::vector<Accumulation> accumulate_in_each_type(std::int64_t count, double term, const StopPoint& stop_point) {
  if (count < 1) throw Error("--count: " + std::to_string(count) + " is too small; the least is 1", ErrorKind::usage);
  if (!std::isfinite(term) || term <= 0) throw Error("--term must be a positive number", ErrorKind::usage);
  const double exact = static_cast<double>(count) * term;
  std::vector<Accumulation> rows;
  for (const Case& which : kCases) {
    Accumulation row{statement_of(which), which.sum, which.term};
    const double value = rounded(which.sum, rounded(which.term, term));
    row.result = which.compensated ? compensated_sum(which.sum, value, count, stop_point)
                                   : plain_sum(which.sum, value, count, stop_point);
    row.error = std::abs(row.result - exact) / exact;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ridgepoint
