// Where the time of a forward pass and of a step goes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kKernelsTopic = "Kernels";
constexpr StudyPart kPart = StudyPart::profile;

// The profiles of one model at one size and type.
struct Configuration {
  const Json *forward = nullptr, *step = nullptr;  // null: not measured

  const Json* of(std::string_view mode) const { return mode == "forward" ? forward : step; }
  std::string label() const { return workload(forward != nullptr ? *forward : *step); }
};

// Those with kernels, the smallest model first, then the shortest context.
std::vector<Configuration> configurations(const PartRows& rows) {
  Rows all = rows_of(rows, kPart);
  std::erase_if(all, [](const Json* row) {
    return !field(*row, "profile.kernels").is_array() || field(*row, "profile.kernels").empty();
  });
  std::vector<Configuration> found;
  for (const Json* row : sorted_by(sorted_by(all, "context"), "model.parameters")) {
    const bool is_forward = text_at(*row, "mode") == "forward";
    if (!is_forward && text_at(*row, "mode") != "step") continue;
    const auto is_like = [&](const Configuration& each) {
      return each.label() == workload(*row) && each.of(is_forward ? "forward" : "step") == nullptr;
    };
    const auto configuration = std::ranges::find_if(found, is_like);
    Configuration& of_row = configuration == found.end() ? found.emplace_back() : *configuration;
    (is_forward ? of_row.forward : of_row.step) = row;
  }
  return found;
}

// The rows of a mode, in the order of the configurations.
Rows rows_in(const std::vector<Configuration>& configurations, std::string_view mode) {
  Rows rows;
  for (const Configuration& each : configurations) {
    if (each.of(mode) != nullptr) rows.push_back(each.of(mode));
  }
  return rows;
}

// The row that a claim on `small` at context 256 compares with; the first where there is none.
const Json& claimed(const Rows& rows) {
  const Json* row = first_of(rows, {{"model.name", "small"}, {"context", 256}});
  return row == nullptr ? *rows.front() : *row;
}

// " (~ throttled)" of one row; " (~ in doubt in 2 of 6)" of several.
std::string doubt_of(const Rows& rows) {
  if (rows.size() == 1) return doubt(*rows.front());
  const auto count = std::ranges::count_if(rows, [](const Json* row) { return !doubt(*row).empty(); });
  return count == 0 ? "" : fmt::format(" (~ in doubt in {} of {})", count, rows.size());
}

std::string over(const Rows& rows) {
  return rows.size() < 2 ? "" : fmt::format(" over {} configurations", rows.size());
}

// "-2.0 %", "-2.0 % to +3.1 %": the least and the most of the figures.
template <typename Format>
std::string span_of(const std::vector<double>& values, Format format) {
  const auto [least, most] = std::ranges::minmax(values);
  const std::string low = format(least), high = format(most);
  return low == high ? low : low + " to " + high;
}
std::string percents(const std::vector<double>& shares) { return span_of(shares, percent); }
std::string signed_percents(const std::vector<double>& shares) {
  return span_of(shares, [](double share) { return fmt::format("{:+.1f} %", 100 * share); });
}
std::string ratios(const std::vector<double>& values) {
  return span_of(values, [](double ratio) { return times(ratio); });
}

StudyAnswer trace_against_clock(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic, "Does the time of the kernels agree with the wall clock?"};
  const std::vector<Configuration> all = configurations(rows);
  const auto gap_of = [](const Json& row) {
    return number_at(row, "profile.time.kernels_ms") / number_at(row, "profile.time.timed_ms") - 1;
  };
  for (const char* mode : {"forward", "step"}) {
    const Rows of_mode = rows_in(all, mode);
    std::vector<double> gaps, with_idle;
    for (const Json* row : of_mode) {
      const double timed = number_at(*row, "profile.time.timed_ms");
      gaps.push_back(gap_of(*row));
      if (const double profiled = number_at(*row, "profile.time.profiled_ms"); has(profiled))
        with_idle.push_back(profiled / timed - 1);
      answer.add(kPart, "{}, {}: kernels {}, idle {}, timed without the profiler {}{}: {:+.1f} %", workload(*row), mode,
                 ms_at(*row, "profile.time.kernels_ms"), ms_at(*row, "profile.time.idle_ms"), ms(timed), doubt(*row),
                 100 * gaps.back());
    }
    if (of_mode.empty()) continue;
    answer.say("The kernels of {} differ by {} from the iteration timed without the profiler{}{}{}.", pass_name(mode),
               signed_percents(gaps), over(of_mode), doubt_of(of_mode),
               with_idle.size() == of_mode.size()
                   ? fmt::format("; with the idle time between them it is {}", signed_percents(with_idle))
                   : "");
    if (mode != std::string_view("forward")) continue;
    const Json& row = claimed(of_mode);
    const double gap = std::abs(gap_of(row));
    judge(answer,
          {.source = "a100_80gb_pcie",
           .text = "The forward time of the trace agrees with the wall clock within 4 %.",
           .figures = {{0, 0.04}},
           .of = {{"model.name", "small"}, {"context", 256}}},
          row,
          {.figures = {exactly(gap)}, .text = fmt::format("they differ by {}", percent(gap)), .doubt = doubt(row)});
  }
  return answer.evidence.empty() ? unanswered(answer, kPart) : answer;
}

const Json& longest_kernel(const Json& row) {
  const Json& kernels = field(row, "profile.kernels");
  return *std::ranges::max_element(kernels, {}, [](const Json& kernel) { return number_at(kernel, "time_ms"); });
}

std::string calls_of(const Json& kernel) {
  const double calls = number_at(kernel, "calls");
  return fmt::format("{} call{}", calls, calls == 1 ? "" : "s");
}

std::string described_kernel(const Json& kernel) {
  return fmt::format("{} ({}, {} of the kernel time)", text_at(kernel, "name"), calls_of(kernel),
                     percent(number_at(kernel, "share_of_kernel_time")));
}

// "gemm in 4 of 6 configurations (19 to 57 calls, 60 % to 80 % of the kernel time), adamw in 2 of 6 (...)", the most
// frequent first; of one row: as described_kernel().
std::string described_longest(const Rows& rows) {
  if (rows.size() == 1) return described_kernel(longest_kernel(*rows.front())) + doubt(*rows.front());
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> by_name;  // calls and shares
  for (const Json* row : rows) {
    const Json& kernel = longest_kernel(*row);
    auto& [calls, shares] = by_name[text_at(kernel, "name")];
    calls.push_back(number_at(kernel, "calls"));
    shares.push_back(number_at(kernel, "share_of_kernel_time"));
  }
  std::vector<std::pair<std::size_t, std::string>> texts;
  for (const auto& [name, of_name] : by_name) {
    const auto& [calls, shares] = of_name;
    texts.emplace_back(
        calls.size(),
        fmt::format("{} in {} of {} configurations ({} calls, {} of the kernel time)", name, calls.size(), rows.size(),
                    span_of(calls, [](double count) { return fmt::format("{}", count); }), percents(shares)));
  }
  std::ranges::stable_sort(texts, std::greater(), &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> words;
  for (const auto& [count, text] : texts) words.push_back(text);
  return fmt::format("{}{}", fmt::join(words, ", "), doubt_of(rows));
}

// "gemm (3 calls in the forward pass, 9 in the step)": the longest kernel of a forward pass, and how often both run it.
std::string counts_of_longest(const Json& forward, const Json& step) {
  const std::string name = text_at(longest_kernel(forward), "name");
  double calls = 0;
  for (const Json& kernel : field(step, "profile.kernels")) {
    if (text_at(kernel, "name") == name) calls += number_at(kernel, "calls");
  }
  return fmt::format("{} ({} in the forward pass, {} in the step)", name, calls_of(longest_kernel(forward)), calls);
}

StudyAnswer top_kernel(const PartRows& rows) {
  StudyAnswer answer{
      kKernelsTopic,
      "Which kernel takes the most time in a forward pass, how often does it run, and is it the same in a step?"};
  const std::vector<Configuration> all = configurations(rows);
  const Rows forwards = rows_in(all, "forward"), steps = rows_in(all, "step");
  if (forwards.empty()) return unanswered(answer, kPart);
  answer.say("The longest kernel of a forward pass is {}.", described_longest(forwards));
  std::size_t same = 0, both = 0;
  for (const Configuration& each : all) {
    if (each.forward == nullptr || each.step == nullptr) continue;
    ++both;
    same += text_at(longest_kernel(*each.forward), "name") == text_at(longest_kernel(*each.step), "name") ? 1 : 0;
    answer.add(kPart, "{}: {}", each.label(), counts_of_longest(*each.forward, *each.step));
  }
  if (both > 0)
    answer.say("The longest kernel of a training step is {}: {}.",
               same == both ? "the same"
               : same == 0  ? "another one"
                            : fmt::format("the same in {} of {} configurations", same, both),
               described_longest(steps));
  constexpr std::size_t kShown = 5;
  for (const char* mode : {"forward", "step"}) {
    for (const Json* row : rows_in(all, mode)) {
      std::vector<std::string> kernels;
      for (const Json& kernel : field(*row, "profile.kernels")) {
        if (kernels.size() < kShown)
          kernels.push_back(fmt::format("{}, {}", described_kernel(kernel), ms_at(kernel, "time_ms")));
      }
      answer.add(kPart, "{}, {}: {}", workload(*row), mode, fmt::join(kernels, "; "));
    }
  }
  return answer;
}

// The share of each class of kernels, over all phases or in one.
std::map<std::string, double> shares_of(const Json& row, std::string_view phase = "") {
  std::map<std::string, double> shares;
  for (const Json& each : field(row, "profile.classes")) {
    if (!phase.empty() && text_at(each, "phase") != phase) continue;
    if (const double share = number_at(each, "share_of_kernel_time"); has(share))
      shares[text_at(each, "class")] += share;
  }
  return shares;
}

std::vector<double> shares_of(const Rows& rows, const std::string& kernels) {
  std::vector<double> shares;
  for (const Json* row : rows) shares.push_back(shares_of(*row)[kernels]);
  return shares;
}

// The source has the shares of `small`.
void judge_share(StudyAnswer& answer, std::string text, Range agreeing, const Rows& rows) {
  const Json& row = claimed(rows);
  const double found = shares_of(row)["matmul"];
  judge(answer,
        {.source = "a100_80gb_pcie",
         .text = std::move(text),
         .figures = {agreeing},
         .of = {{"model.name", "small"}, {"context", 256}}},
        row, {.figures = {exactly(found)}, .text = fmt::format("it is {}", percent(found)), .doubt = doubt(row)});
}

// "100 % of forward (20 % of the step), 0.0 % of optimizer (30 % of the step)": the share of products in each phase.
std::vector<std::string> products_by_phase(const Json& step) {
  std::vector<std::string> phases;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const std::string_view phase = name(static_cast<Phase>(i));
    std::map<std::string, double> of_phase = shares_of(step, phase);
    double all = 0;
    for (const auto& [kernels, share] : of_phase) all += share;
    if (all >= 0.005)
      phases.push_back(
          fmt::format("{} of {} ({} of the step)", percent(of_phase["matmul"] / all), phase, percent(all)));
  }
  return phases;
}

StudyAnswer matmul_share(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic, "What share of the time do matrix products take, in a forward pass and in a step?"};
  const std::vector<Configuration> all = configurations(rows);
  const Rows forwards = rows_in(all, "forward"), steps = rows_in(all, "step");
  if (forwards.empty() || steps.empty()) return unanswered(answer, kPart);
  answer.say(
      "Matrix products take {} of the kernel time of a forward pass{}{} and {} of the kernel time of a training "
      "step{}{}.",
      percents(shares_of(forwards, "matmul")), over(forwards), doubt_of(forwards), percents(shares_of(steps, "matmul")),
      over(steps), doubt_of(steps));
  if (const std::vector<std::string> phases = products_by_phase(*steps.front()); steps.size() == 1 && phases.size() > 1)
    answer.say("Within the step they are {}.", fmt::join(phases, ", "));
  for (const char* mode : {"forward", "step"}) {
    for (const Json* row : rows_in(all, mode)) {
      std::vector<std::string> parts;
      for (const auto& [name, share] : shares_of(*row)) parts.push_back(fmt::format("{} {}", name, percent(share)));
      const bool has_phases = steps.size() > 1 && mode == std::string_view("step");
      answer.add(kPart, "{}, {}: {}{}", workload(*row), mode, fmt::join(parts, ", "),
                 has_phases ? fmt::format("; products are {}", fmt::join(products_by_phase(*row), ", ")) : "");
    }
  }
  judge_share(answer, "Matrix products take 75 to 78 % of a forward pass.", {0.73, 0.80}, forwards);
  judge_share(answer, "Matrix products take 59 % of a training step.", {0.57, 0.61}, steps);
  return answer;
}

// The classes besides products, the largest first.
std::vector<std::pair<std::string, double>> other_classes(const Json& row) {
  std::vector<std::pair<std::string, double>> others;
  for (const auto& [name, share] : shares_of(row)) {
    if (name != "matmul") others.emplace_back(name, share);
  }
  std::ranges::sort(others, std::greater(), &std::pair<std::string, double>::second);
  return others;
}

StudyAnswer other_kernels(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic, "Which kernels besides matrix products matter?"};
  constexpr double kMatters = 0.005;
  const std::vector<Configuration> all = configurations(rows);
  for (const char* mode : {"forward", "step"}) {
    const Rows of_mode = rows_in(all, mode);
    if (of_mode.empty()) continue;
    std::map<std::string, std::vector<double>> largest;  // the shares of a class, where it is the largest
    for (const Json* row : of_mode) {
      const std::vector<std::pair<std::string, double>> others = other_classes(*row);
      std::vector<std::string> parts;
      for (const auto& [name, share] : others) parts.push_back(fmt::format("{} {}", name, percent(share)));
      answer.add(kPart, "{}, {}: {}", workload(*row), mode, fmt::join(parts, ", "));
      if (!others.empty() && others.front().second >= kMatters)
        largest[others.front().first].push_back(others.front().second);
    }
    std::vector<std::string> texts;
    for (const auto& [name, shares] : largest) {
      const std::string where =
          of_mode.size() == 1 ? "" : fmt::format(" in {} of {} configurations", shares.size(), of_mode.size());
      texts.push_back(fmt::format("{} kernels take the most{}, {}", name, where, percents(shares)));
    }
    if (texts.empty()) {
      answer.say("In {} none takes 0.5 %{}{}.", pass_name(mode), over(of_mode), doubt_of(of_mode));
    } else {
      answer.say("In {} {}{}.", pass_name(mode), fmt::join(texts, "; "), doubt_of(of_mode));
    }
  }
  return answer.evidence.empty() ? unanswered(answer, kPart) : answer;
}

// Time and operations inside the attention of one forward pass.
struct InsideAttention {
  double product_ms = 0, softmax_ms = 0, product_flops = 0, softmax_flops = 0, softmax_bytes = 0, all_ms = 0;
  std::vector<std::string> parts = {};

  explicit InsideAttention(const Json& forward) {
    for (const Json& part : field(forward, "profile.attention")) {
      const std::string name = text_at(part, "part");
      const double time = number_at(part, "time_ms");
      all_ms += time;
      if (name.ends_with("matmul")) product_ms += time, product_flops += number_at(part, "flops");
      if (name == "softmax") {
        softmax_ms += time, softmax_flops += number_at(part, "flops");
        softmax_bytes += number_at(part, "bytes");
      }
      parts.push_back(fmt::format("{} {}, {}", name, ms(time), flops(number_at(part, "flops"))));
    }
  }
  bool is_comparable() const { return softmax_ms > 0 && product_ms > 0 && softmax_flops > 0; }
  double time_ratio() const { return product_ms / softmax_ms; }
  double flop_ratio() const { return product_flops / softmax_flops; }
};

// Above this share of the copy rate, bytes come from the cache: the measured copy rate varies by a few percent.
constexpr double kCached = 1.1;

void say_softmax_rate(StudyAnswer& answer, const Rows& rows) {
  std::vector<double> rates, sizes;
  Rows known;
  for (const Json* row : rows) {
    const InsideAttention inside(*row);
    const double rate =
        inside.softmax_bytes / (inside.softmax_ms / 1e3) / number_at(*row, "profile.copy_bytes_per_second");
    if (rate > 0) rates.push_back(rate), sizes.push_back(inside.softmax_bytes), known.push_back(row);
  }
  if (rates.empty()) return;
  const auto [least, most] = std::ranges::minmax(rates);
  const std::string moved = span_of(sizes, [](double size) { return bytes(size); });
  const std::string cached =
      most <= kCached   ? ""
      : least > kCached ? ", so a part of them comes from the cache"
                        : fmt::format(", so a part of them comes from the cache where it is more than {}x", kCached);
  answer.say("Softmax moves {} at {} the copy rate of main memory{}{}.", moved,
             most <= 1 ? percents(rates) + " of" : ratios(rates), doubt_of(known), cached);
}

StudyAnswer inside_attention(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic,
                     "Inside attention, how do softmax and the products compare, in time and in operations?"};
  Rows compared;
  std::vector<double> time_ratios, flop_ratios, shares;
  for (const Json* row : rows_in(configurations(rows), "forward")) {
    const InsideAttention inside(*row);
    if (inside.parts.empty()) continue;
    answer.add(kPart, "{}: {}", workload(*row), fmt::join(inside.parts, "; "));
    if (!inside.is_comparable()) continue;
    compared.push_back(row);
    time_ratios.push_back(inside.time_ratio());
    flop_ratios.push_back(inside.flop_ratio());
    shares.push_back(inside.softmax_ms / inside.all_ms);
  }
  if (answer.evidence.empty()) return unanswered(answer, kPart);
  if (compared.empty()) {
    answer.sentence = "No row inside attention is softmax alone, so it has no time of its own.";
    return answer;
  }
  answer.say(
      "The two products take {} the time of softmax{}, with {} its operations; softmax is {} of the time of "
      "attention{}.",
      ratios(time_ratios), doubt_of(compared), ratios(flop_ratios), percents(shares), over(compared));
  say_softmax_rate(answer, compared);
  const Json& row = claimed(compared);
  const InsideAttention inside(row);
  judge(answer,
        {.source = "a100_80gb_pcie",
         .text = "Softmax takes far more than its share of the operations: the products of attention take 5.9 times as "
                 "long, with 206 times its operations.",
         .figures = {{5.3, 6.5}, {196, 216}},
         .of = {{"model.name", "small"}, {"context", 256}}},
        row,
        {.figures = {exactly(inside.time_ratio()), exactly(inside.flop_ratio())},
         .text = fmt::format("it is {} the time with {} the operations", times(inside.time_ratio()),
                             times(inside.flop_ratio())),
         .doubt = doubt(row)});
  return answer;
}

// "67 % of its ceiling, bound by matmul rate": how far a class of kernels is from the roofline.
std::string of_ceiling(const Json& roofline_row) {
  const double share = number_at(roofline_row, "share_of_ceiling");
  const std::string bound = text_at(roofline_row, "bound_by");
  if (bound != "cache") return fmt::format("{} of its ceiling, bound by {}", percent(share), bound);
  return fmt::format("{} the copy rate of main memory{}", times(share),
                     share > kCached ? ", so in part from the cache" : "");
}

// The time of the optimizer, and its share of the kernel time.
std::pair<double, double> optimizer_of(const Json& step) {
  double time = 0, share = 0;
  for (const Json& each : field(step, "profile.classes")) {
    if (text_at(each, "phase") != "optimizer") continue;
    time += number_at(each, "time_ms");
    share += number_at(each, "share_of_kernel_time");
  }
  return {time, share};
}

StudyAnswer optimizer_share(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic, "What share of a step does the optimizer take?"};
  const Json* most = nullptr;
  std::vector<double> shares;
  Rows steps;
  for (const Json* step : rows_in(configurations(rows), "step")) {
    const auto [time, share] = optimizer_of(*step);
    if (!(time > 0)) continue;
    answer.add(kPart, "{}: optimizer {}, {}{}", workload(*step), ms(time), percent(share), doubt(*step));
    if (most == nullptr || share > optimizer_of(*most).second) most = step;
    shares.push_back(share);
    steps.push_back(step);
  }
  if (most == nullptr) return unanswered(answer, kPart);
  const auto [time, share] = optimizer_of(*most);
  if (shares.size() > 1)
    answer.say("Over {} configurations the optimizer takes {} of the kernel time of a step{}.", shares.size(),
               percents(shares), doubt_of(steps));
  answer.say("{} ({}) takes {}, {} of the kernel time of a step of {}{}.",
             shares.size() > 1 ? "At the most it" : "The optimizer", text_at(*most, "optimizer"), ms(time),
             percent(share), workload(*most), doubt(*most));
  for (const Json& each : field(*most, "profile.roofline")) {
    if (text_at(each, "class") != "optimizer" || !has(number_at(each, "bytes"))) continue;
    answer.say("It moves {}, at {}.", bytes_at(each, "bytes"), of_ceiling(each));
  }
  return answer;
}

// The time of a step above the limits of its kernels.
double recoverable_ms(const Json& step) {
  double sum = 0;
  for (const Json& each : field(step, "profile.recoverable")) sum += number_at(each, "recoverable_ms");
  return sum;
}

// "the largest part in lm_head matmul (12.00 ms, 80 % of it)"
std::string largest_part(const Json& step) {
  const Json& largest = *largest_of(field(step, "profile.recoverable"), "recoverable_ms");
  const double time = number_at(largest, "recoverable_ms");
  return fmt::format("the largest part in {} ({}, {} of it)", text_at(largest, "what"), ms(time),
                     percent(time / recoverable_ms(step)));
}

StudyAnswer limits(const PartRows& rows) {
  StudyAnswer answer{kKernelsTopic, "How far is a step from the machine's limit, and is the device ever idle?"};
  Rows steps = rows_in(configurations(rows), "step");
  std::erase_if(steps, [](const Json* step) { return field(*step, "profile.recoverable").empty(); });
  if (steps.empty()) return unanswered(answer, kPart);
  std::vector<double> recoverable, idle;
  for (const Json* step : steps) {
    const double wall = number_at(*step, "profile.time.profiled_ms");
    recoverable.push_back(recoverable_ms(*step) / wall);
    idle.push_back(number_at(*step, "profile.time.idle_ms") / wall);
    std::vector<std::string> ceilings;
    for (const Json& each : field(*step, "profile.roofline"))
      ceilings.push_back(fmt::format("{} at {}", text_at(each, "class"), of_ceiling(each)));
    answer.add(kPart, "{}: {} of {}{} above the limit, {}; {}", workload(*step), percent(recoverable.back()), ms(wall),
               doubt(*step), largest_part(*step), fmt::join(ceilings, ", "));
  }
  if (steps.size() > 1) {
    answer.say("At the measured rates of the machine {} of the time of a step could be saved{}{}.",
               percents(recoverable), over(steps), doubt_of(steps));
    answer.say("The device is idle {} of the time{}.", percents(idle), doubt_of(steps));
    return answer;
  }
  const Json& step = *steps.front();
  answer.say("At the measured rates of the machine {} of a step's {}{} could be saved, {}.",
             percent(recoverable.front()), ms(number_at(step, "profile.time.profiled_ms")), doubt(step),
             largest_part(step));
  const Json* cause = largest_of(field(step, "profile.idle"), "time_ms");
  answer.say("The device is idle {} of the time{}.", percent(idle.front()),
             cause == nullptr ? ""
                              : fmt::format(", most of it by the cause '{}' ({})", text_at(*cause, "cause"),
                                            ms_at(*cause, "time_ms")));
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_kernels(const PartRows& rows) {
  return {trace_against_clock(rows), top_kernel(rows),      matmul_share(rows), other_kernels(rows),
          inside_attention(rows),    optimizer_share(rows), limits(rows)};
}

}  // namespace ridgepoint::answers
