#include "inspect/attention/deviations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

namespace ridgepoint {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// How attention is computed. The values here, as problem_steps() leaves them, are the formula of attention.
struct Steps {
  double scale = 1;
  double soft_cap = 0;
  bool causal = false, causal_in_backward = false;
  std::int64_t shown_behind = 0;  // keys behind a query's own that a causal mask shows; -1: hides its own, too
  std::int64_t window = 0;        // 0: none
  std::int64_t keys = 0;          // that are read
  std::int64_t tile = 0;          // keys at a time; 0: all
  bool rescales_sums = true, rescales_result = true;  // to a maximum that has grown
  bool divides = true;                                // the result by the sums
  double gradient_scale = 1;                          // of the scores' gradient, for dq and dk
  bool subtracts_rows = true;                         // rowsum(do o) from the gradient of the weights
  enum class LogSumExp : std::uint8_t { whole, maximum, without_maximum, of_base_2 } lse = LogSumExp::whole;
  bool backward_reads_lse = false;  // as it is written, and not the right one
};

Steps steps_of(const AttentionProblem& problem) {
  const double scale = 1 / std::sqrt(static_cast<double>(problem.head_size()));
  return {.scale = scale,
          .soft_cap = problem.soft_cap,
          .causal = problem.causal,
          .causal_in_backward = problem.causal,
          .window = problem.has_window() ? problem.window : 0,
          .keys = problem.keys,
          .gradient_scale = scale};
}

// A head of keys and values with the heads of queries that read it. `gradient` is empty for a forward alone.
struct Group {
  std::int64_t heads = 1, queries = 0, keys = 0, width = 0;
  std::span<const double> q, k, v, gradient;
};

using Numbers = std::vector<double>;
using Computed = std::map<std::string, Numbers>;

double product(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* sum, double factor, const double* a, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += factor * a[i];
}

// The first key that a query sees, and the one behind the last.
std::pair<std::int64_t, std::int64_t> seen_by(const Steps& steps, std::int64_t query, bool is_causal) {
  const std::int64_t end =
      is_causal ? std::clamp<std::int64_t>(query + 1 + steps.shown_behind, 0, steps.keys) : steps.keys;
  const std::int64_t first = steps.window > 0 ? std::max<std::int64_t>(query + 1 - steps.window, 0) : 0;
  return {std::min(first, end), end};
}

double score(const Steps& steps, const Group& group, const double* q, std::int64_t key) {
  const double plain = steps.scale * product(q, group.k.data() + key * group.width, group.width);
  return steps.soft_cap > 0 ? steps.soft_cap * std::tanh(plain / steps.soft_cap) : plain;
}

// One row of o, which is 0 at the begin, and of lse; returns the log-sum-exp that backward reads.
double forward_row(const Steps& steps, const Group& group, std::int64_t query, const double* q, double* o,
                   double& lse) {
  const auto [first, end] = seen_by(steps, query, steps.causal);
  const std::int64_t tile = steps.tile > 0 ? steps.tile : std::max<std::int64_t>(group.keys, 1);
  double maximum = kLowest, sum = 0;
  for (std::int64_t begin = first - first % tile; first < end && begin < end; begin += tile) {
    Numbers scores;
    for (std::int64_t key = std::max(begin, first); key < std::min(begin + tile, end); ++key)
      scores.push_back(score(steps, group, q, key));
    const double grown = std::max(maximum, *std::ranges::max_element(scores));
    const double factor = std::exp(maximum - grown);
    if (steps.rescales_sums) sum *= factor;
    if (steps.rescales_result) std::transform(o, o + group.width, o, [&](double x) { return x * factor; });
    maximum = grown;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double weight = std::exp(scores[i] - maximum);
      sum += weight;
      const auto key = std::max(begin, first) + static_cast<std::int64_t>(i);
      add_scaled(o, weight, group.v.data() + key * group.width, group.width);
    }
  }
  if (steps.divides) std::transform(o, o + group.width, o, [&](double x) { return x / sum; });
  const double whole = maximum + std::log(sum);
  lse = steps.lse == Steps::LogSumExp::maximum           ? maximum
        : steps.lse == Steps::LogSumExp::without_maximum ? std::log(sum)
        : steps.lse == Steps::LogSumExp::of_base_2       ? whole / std::log(2.0)
                                                         : whole;
  return steps.backward_reads_lse ? lse : whole;
}

// Adds the contribution of a query to dq, dk and dv.
void backward_row(const Steps& steps, const Group& group, std::int64_t query, std::int64_t row, double lse,
                  Computed& results) {
  const std::int64_t width = group.width;
  const double *q = group.q.data() + row * width, *gradient = group.gradient.data() + row * width;
  const double of_row = steps.subtracts_rows ? product(gradient, results["o"].data() + row * width, width) : 0;
  double *dq = results["dq"].data() + row * width, *dk = results["dk"].data(), *dv = results["dv"].data();
  const auto [first, end] = seen_by(steps, query, steps.causal_in_backward);
  for (std::int64_t key = first; key < end; ++key) {
    const double capped = score(steps, group, q, key);
    const double weight = std::exp(capped - lse);
    double of_score = weight * (product(gradient, group.v.data() + key * width, width) - of_row);
    if (steps.soft_cap > 0) of_score *= 1 - std::pow(capped / steps.soft_cap, 2);
    add_scaled(dv + key * width, weight, gradient, width);
    add_scaled(dq, steps.gradient_scale * of_score, group.k.data() + key * width, width);
    add_scaled(dk + key * width, steps.gradient_scale * of_score, q, width);
  }
}

Computed compute(const Steps& steps, const Group& group) {
  Computed results = {{"o", Numbers(group.q.size())},
                      {"lse", Numbers(static_cast<std::size_t>(group.heads * group.queries))},
                      {"dq", Numbers(group.q.size())},
                      {"dk", Numbers(group.k.size())},
                      {"dv", Numbers(group.v.size())}};
  for (std::int64_t row = 0; row < group.heads * group.queries; ++row) {
    const std::int64_t query = row % group.queries;
    const double lse =
        forward_row(steps, group, query, group.q.data() + row * group.width, results["o"].data() + row * group.width,
                    results["lse"][static_cast<std::size_t>(row)]);
    if (!group.gradient.empty()) backward_row(steps, group, query, row, lse, results);
  }
  return results;
}

using Candidates = std::vector<std::pair<std::string, Steps>>;

template <typename Change>
void add(Candidates& all, Steps steps, std::string text, Change change) {
  change(steps);
  all.emplace_back(std::move(text), steps);
}

void add_scales(Candidates& all, const Steps& usual, const AttentionProblem& problem) {
  const std::int64_t width = problem.head_size();
  const auto scaled = [&](std::string text, double scale) {
    add(all, usual, std::move(text), [&](Steps& s) { s.scale = s.gradient_scale = scale; });
  };
  scaled(fmt::format("attention whose scores are not scaled by 1/sqrt({})", width), 1);
  scaled(fmt::format("attention whose scores are scaled twice, so by 1/{}", width), 1 / static_cast<double>(width));
  scaled(fmt::format("attention whose scores are multiplied by sqrt({}) instead of divided by it", width),
         std::sqrt(static_cast<double>(width)));
  if (problem.heads > 1)
    scaled(fmt::format("attention whose scores are scaled by 1/sqrt({0}): {0} is the width of all heads together, and "
                       "a head has {1}",
                       problem.d_model, width),
           1 / std::sqrt(static_cast<double>(problem.d_model)));
  const auto in_backward = [&](std::string text, double scale) {
    add(all, usual, std::move(text), [&](Steps& s) { s.gradient_scale = scale; });
  };
  in_backward(fmt::format("attention whose backward does not scale the gradient of the scores by 1/sqrt({})", width),
              1);
  in_backward(fmt::format("attention whose backward scales the gradient of the scores twice, so by 1/{}", width),
              usual.scale * usual.scale);
  if (usual.soft_cap > 0) add(all, usual, "attention without the soft cap", [](Steps& s) { s.soft_cap = 0; });
}

// `is_square`: there are as many keys as queries, which a causal mask needs.
void add_masks(Candidates& all, const Steps& usual, bool is_square) {
  if (usual.causal) {
    add(all, usual, "attention without the causal mask", [](Steps& s) { s.causal = s.causal_in_backward = false; });
    add(all, usual, "attention whose backward has no causal mask", [](Steps& s) { s.causal_in_backward = false; });
    add(all, usual, "attention whose causal mask also hides a query's own key", [](Steps& s) { s.shown_behind = -1; });
    add(all, usual, "attention whose causal mask shows one key behind a query's own",
        [](Steps& s) { s.shown_behind = 1; });
  } else if (is_square) {
    add(all, usual, "causal attention; add --causal true to compare the file with causal attention",
        [](Steps& s) { s.causal = s.causal_in_backward = true; });
  }
  if (usual.window == 0) return;
  add(all, usual, "attention without the window", [](Steps& s) { s.window = 0; });
  for (const std::int64_t window : {usual.window - 1, usual.window + 1}) {
    if (window > 0)
      add(all, usual, fmt::format("attention with a window of {} keys", window), [&](Steps& s) { s.window = window; });
  }
}

void add_tiles(Candidates& all, const Steps& usual) {
  std::set<std::int64_t> whole_tiles;  // the keys before the last tile, which other tiles may have too
  for (const std::int64_t tile : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    if (tile >= usual.keys) break;
    whole_tiles.insert((usual.keys - 1) / tile * tile);
    const std::string where = fmt::format("attention in tiles of {} keys that, when the maximum of a row grows,", tile);
    add(all, usual, where + " rescales neither the sums so far nor the rows of o", [&](Steps& s) {
      s.tile = tile;
      s.rescales_sums = s.rescales_result = false;
    });
    add(all, usual, where + " does not rescale the rows of o so far", [&](Steps& s) {
      s.tile = tile;
      s.rescales_result = false;
    });
    add(all, usual, where + " does not rescale the sums so far", [&](Steps& s) {
      s.tile = tile;
      s.rescales_sums = false;
    });
  }
  for (const std::int64_t keys : whole_tiles) {
    add(all, usual,
        fmt::format("attention that reads the first {} of {} keys, so perhaps not the last tile", keys, usual.keys),
        [&](Steps& s) { s.keys = keys; });
  }
}

// Every deviation: one step done in another way.
Candidates candidates_of(const AttentionProblem& problem) {
  const Steps usual = steps_of(problem);
  Candidates all;
  add_scales(all, usual, problem);
  add_masks(all, usual, problem.queries == problem.keys);
  add(all, usual, "attention whose rows are not divided by the sums of their exponentials",
      [](Steps& s) { s.divides = false; });
  add(all, usual, "attention whose backward does not subtract rowsum(do o) from do v^T",
      [](Steps& s) { s.subtracts_rows = false; });
  for (const bool is_read : {false, true}) {
    for (const auto& [text, kind] :
         {std::pair("the maximum of each row alone", Steps::LogSumExp::maximum),
          {"the logarithm of the sum, without the maximum", Steps::LogSumExp::without_maximum},
          {"the log-sum-exp by logarithms of base 2", Steps::LogSumExp::of_base_2}}) {
      add(all, usual, is_read ? fmt::format("attention whose lse is {}, and whose backward reads that", text) : text,
          [is_read, kind = kind](Steps& s) {
            s.lse = kind;
            s.backward_reads_lse = is_read;
          });
    }
  }
  add_tiles(all, usual);
  return all;
}

// The part of a tensor that belongs to one group, which lies in one piece.
std::span<const double> part_of(const HostTensor& tensor, std::int64_t group, std::int64_t groups) {
  const std::span<const double> all = tensor.as<double>();
  const std::size_t size = all.size() / static_cast<std::size_t>(groups);
  return all.subspan(static_cast<std::size_t>(group) * size, size);
}

HostTensor tensor_of(std::span<const double> numbers) {
  HostTensor tensor(TensorType{DType::fp64, Shape{static_cast<std::int64_t>(numbers.size())}});
  std::ranges::copy(numbers, tensor.as<double>().begin());
  return tensor;
}

class DeviationSearch {
 public:
  DeviationSearch(const AttentionProblem& problem, const AttentionTensors& inputs, const AttentionTensors& found,
                  const Tolerance& tolerance, const StopPoint& stop_point)
      : problem_(problem),
        tolerance_(tolerance),
        stop_point_(stop_point),
        groups_(problem.batch * problem.key_heads()) {
    for (const auto& [name, tensor] : inputs) inputs_[name] = convert(tensor, DType::fp64);
    for (const auto& [name, tensor] : found) found_[name] = convert(tensor, DType::fp64);
    needs_backward_ = inputs.contains("do") && (found.contains("dq") || found.contains("dk") || found.contains("dv"));
  }

  std::vector<Deviation> run() {
    const std::int64_t of_group = products_of_head(problem_);
    if (of_group > kMostProductsOfHead) return {};
    const bool looks_at_all = of_group * groups_ <= kMostOfAll;
    // Agreement in the groups that were checked says nothing about a fault in other groups.
    for (const std::string& name : explained(steps_of(problem_), looks_at_all)) found_.erase(name);
    std::vector<Deviation> all;
    for (const auto& [text, steps] : candidates_of(problem_)) {
      if (stop_point_) stop_point_();
      std::vector<std::string> names = explained(steps, looks_at_all);
      if (!names.empty()) all.push_back({std::move(names), text, looks_at_all});
    }
    return largest_first(std::move(all));
  }

 private:
  static constexpr std::int64_t kMostOfAll = std::int64_t{1} << 28;

  Group group(std::int64_t index) const {
    const auto part = [&](const char* name) { return part_of(inputs_.at(name), index, groups_); };
    return {.heads = problem_.heads / problem_.key_heads(),
            .queries = problem_.queries,
            .keys = problem_.keys,
            .width = problem_.head_size(),
            .q = part("q"),
            .k = part("k"),
            .v = part("v"),
            .gradient = needs_backward_ ? part("do") : std::span<const double>()};
  }

  // The tensors that agree in every group that was checked.
  std::vector<std::string> explained(const Steps& steps, bool looks_at_all) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : found_) names.push_back(name);
    for (std::int64_t index = 0; index < (looks_at_all ? groups_ : 1) && !names.empty(); ++index) {
      const Computed computed = compute(steps, group(index));
      std::erase_if(names, [&](const std::string& name) {
        const HostTensor found = tensor_of(part_of(found_.at(name), index, groups_));
        return compare_tensors(found, tensor_of(computed.at(name)), tolerance_).tolerance_ratio > 1;
      });
    }
    return names;
  }

  static std::vector<Deviation> largest_first(std::vector<Deviation> all) {
    std::vector<Deviation> chosen;
    while (!all.empty()) {
      const auto largest = std::ranges::max_element(all, {}, [](const Deviation& each) { return each.names.size(); });
      if (largest->names.empty()) break;
      chosen.push_back(*largest);
      for (Deviation& each : all) {
        std::erase_if(each.names, [&](const std::string& name) {
          return std::ranges::find(chosen.back().names, name) != chosen.back().names.end();
        });
      }
    }
    return chosen;
  }

  const AttentionProblem& problem_;
  const Tolerance& tolerance_;
  const StopPoint& stop_point_;
  const std::int64_t groups_;
  AttentionTensors inputs_, found_;
  bool needs_backward_ = false;
};

}  // namespace

std::int64_t products_of_head(const AttentionProblem& problem) {
  return problem.heads / problem.key_heads() * problem.queries * problem.keys * problem.head_size();
}

std::vector<Deviation> deviations_of(const AttentionProblem& problem, const AttentionTensors& inputs,
                                     const AttentionTensors& found, const Tolerance& tolerance,
                                     const StopPoint& stop_point) {
  return DeviationSearch(problem, inputs, found, tolerance, stop_point).run();
}

}  // namespace ridgepoint
