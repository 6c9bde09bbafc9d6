// Where the time of a forward pass and of a step goes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kKernelsTopic = "Kernels";
constexpr StudyPart kPart = StudyPart::profile;

const Json* profile_of(const StudyRows& rows, std::string_view mode) {
  for (const Json* row : rows_of(rows, kPart, {{"mode", mode}})) {
    if (field(*row, "profile.kernels").is_array() && !field(*row, "profile.kernels").empty()) return row;
  }
  return nullptr;
}

std::string what(std::string_view mode) { return mode == "step" ? "a training step" : "a forward pass"; }

StudyAnswer trace_against_clock(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "Does the time of the kernels agree with the wall clock?"};
  double worst = 0, longest = 0;  // the largest difference, and the largest by which the kernels take longer
  bool is_steady = true;
  for (const char* mode : {"forward", "step"}) {
    const Json* row = profile_of(rows, mode);
    if (row == nullptr) continue;
    const double kernels = number_at(*row, "profile.time.kernels_ms");
    const double timed = number_at(*row, "profile.time.timed_ms");
    const double gap = kernels / timed - 1;
    worst = std::max(worst, std::abs(gap));
    longest = std::max(longest, gap);
    is_steady &= text_at(*row, "timing.verdict") == "steady";
    answer.add(kPart, "{}, {}: kernels {}, idle {}, timed without the profiler {}: {:+.1f} %", workload(*row), mode,
               ms(kernels), ms_at(*row, "profile.time.idle_ms"), ms(timed), 100 * gap);
  }
  if (answer.evidence.empty()) return unanswered(answer, kPart);
  answer.say("The kernels add up to the timed iteration within {}{}", percent(worst),
             worst <= 0.05      ? "."
             : !is_steady       ? ", in timings that were not steady."
             : longest == worst ? ": they take longer under the profiler."
                                : ", so idle time is a part of it.");
  answer.compare("a100_80gb_pcie", "The forward time of the trace agrees with the wall clock within 4 %.",
                 worst <= 0.04 || is_steady ? agreement(worst <= 0.04) : StudyClaim::Verdict::not_comparable,
                 "Here they differ by {} at most{}.", percent(worst),
                 is_steady ? "" : ", in timings that were not steady");
  return answer;
}

const Json& longest_kernel(const Json& row) {
  const Json& kernels = field(row, "profile.kernels");
  return *std::ranges::max_element(kernels, {}, [](const Json& kernel) { return number_at(kernel, "time_ms"); });
}

std::string described_kernel(const Json& kernel) {
  return fmt::format("{} ({} calls, {} of the kernel time)", text_at(kernel, "name"), number_at(kernel, "calls"),
                     percent(number_at(kernel, "share_of_kernel_time")));
}

StudyAnswer top_kernel(const StudyRows& rows) {
  StudyAnswer answer{
      kKernelsTopic,
      "Which kernel takes the most time in a forward pass, how often does it run, and is it the same in a step?"};
  const Json* forward = profile_of(rows, "forward");
  if (forward == nullptr) return unanswered(answer, kPart);
  const Json& top = longest_kernel(*forward);
  answer.say("In a forward pass it is {}.", described_kernel(top));
  if (const Json* step = profile_of(rows, "step"); step != nullptr) {
    const Json& top_of_step = longest_kernel(*step);
    answer.sentence += text_at(top, "name") == text_at(top_of_step, "name")
                           ? fmt::format(" It is the same in a training step: {}.", described_kernel(top_of_step))
                           : fmt::format(" In a training step it is another one: {}.", described_kernel(top_of_step));
  }
  for (const char* mode : {"forward", "step"}) {
    const Json* row = profile_of(rows, mode);
    if (row == nullptr) continue;
    int shown = 0;
    for (const Json& kernel : field(*row, "profile.kernels")) {
      if (++shown > 5) break;
      answer.add(kPart, "{}: {}, {}", mode, described_kernel(kernel), ms_at(kernel, "time_ms"));
    }
  }
  return answer;
}

// The share of each class of kernels, over all phases.
std::map<std::string, double> shares_of(const Json& row) {
  std::map<std::string, double> shares;
  for (const Json& each : field(row, "profile.classes")) {
    if (const double share = number_at(each, "share_of_kernel_time"); has(share))
      shares[text_at(each, "class")] += share;
  }
  return shares;
}

// The source has the shares of `small` on a GPU. Shares of another model or of a processor do not contradict it.
StudyClaim claim_of_share(std::string text, double low, double high, double found, const Json& row) {
  const bool holds = found >= low - 0.05 && found <= high + 0.05;
  const bool is_like_it = text_at(row, "device.kind") == "cuda" && text_at(row, "model.name") == "small";
  return {"a100_80gb_pcie", std::move(text),
          holds        ? StudyClaim::Verdict::confirmed
          : is_like_it ? StudyClaim::Verdict::contradicted
                       : StudyClaim::Verdict::not_comparable,
          fmt::format("Here, on {} with {}, it is {}.", text_at(row, "device.name"), text_at(row, "model.name"),
                      percent(found))};
}

StudyAnswer matmul_share(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "What share of the time do matrix products take, in a forward pass and in a step?"};
  const Json* forward = profile_of(rows, "forward");
  const Json* step = profile_of(rows, "step");
  if (forward == nullptr || step == nullptr) return unanswered(answer, kPart);
  const double in_forward = shares_of(*forward)["matmul"];
  const double in_step = shares_of(*step)["matmul"];
  answer.say(
      "Matrix products take {} of the kernel time of a forward pass and {} of the kernel time of a training step: {}.",
      percent(in_forward), percent(in_step),
      in_step < in_forward - 0.01   ? "the optimizer, the loss and elementwise gradients dilute them"
      : in_step > in_forward + 0.01 ? "backward's products, two for each of forward's, outweigh the rest of the step"
                                    : "a step hardly changes the share");
  for (const auto& [mode, row] : {std::pair("forward", forward), std::pair("step", step)}) {
    std::vector<std::string> parts;
    for (const auto& [name, share] : shares_of(*row)) parts.push_back(fmt::format("{} {}", name, percent(share)));
    answer.add(kPart, "{}: {}", mode, fmt::join(parts, ", "));
  }
  answer.elsewhere.push_back(
      claim_of_share("Matrix products take 75 to 78 % of a forward pass.", 0.75, 0.78, in_forward, *forward));
  answer.elsewhere.push_back(
      claim_of_share("Matrix products take 59 % of a training step.", 0.59, 0.59, in_step, *step));
  return answer;
}

StudyAnswer other_kernels(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "Which kernels besides matrix products matter?"};
  for (const char* mode : {"forward", "step"}) {
    const Json* row = profile_of(rows, mode);
    if (row == nullptr) continue;
    std::vector<std::pair<std::string, double>> others;
    for (const auto& [name, share] : shares_of(*row)) {
      if (name != "matmul") others.emplace_back(name, share);
    }
    std::ranges::sort(others, std::greater(), &std::pair<std::string, double>::second);
    std::vector<std::string> parts;
    for (const auto& [name, share] : others) parts.push_back(fmt::format("{} {}", name, percent(share)));
    answer.add(kPart, "{}: {}", mode, fmt::join(parts, ", "));
    if (others.empty() || others.front().second < 0.005) {
      answer.say("In {} none takes 0.5 %.", what(mode));
    } else {
      answer.say("In {} {} kernels take the most, {}.", what(mode), others.front().first,
                 percent(others.front().second));
    }
  }
  return answer.evidence.empty() ? unanswered(answer, kPart) : answer;
}

StudyAnswer inside_attention(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic,
                     "Inside attention, how do softmax and the products compare, in time and in operations?"};
  const Json* forward = profile_of(rows, "forward");
  if (forward == nullptr || field(*forward, "profile.attention").empty()) return unanswered(answer, kPart);
  double product_ms = 0, softmax_ms = 0, product_flops = 0, softmax_flops = 0, all_ms = 0;
  for (const Json& part : field(*forward, "profile.attention")) {
    const std::string name = text_at(part, "part");
    const double time = number_at(part, "time_ms");
    all_ms += time;
    if (name.ends_with("matmul")) product_ms += time, product_flops += number_at(part, "flops");
    if (name == "softmax") softmax_ms += time, softmax_flops += number_at(part, "flops");
    answer.add(kPart, "{}: {}, {}", name, ms(time), flops(number_at(part, "flops")));
  }
  if (softmax_ms == 0 || product_ms == 0) {
    answer.sentence = "Softmax is part of one attention kernel here, so it has no time of its own.";
    return answer;
  }
  const double time_ratio = product_ms / softmax_ms;
  const double flop_ratio = product_flops / softmax_flops;
  answer.say(
      "The two products take {} the time of softmax, with {} its operations; softmax is {} of the time of attention.",
      times(time_ratio), times(flop_ratio), percent(softmax_ms / all_ms));
  answer.sentence += time_ratio < flop_ratio / 2
                         ? " So softmax is bound by memory and exponentials, not by its operations."
                         : " So its time is in proportion to its operations.";
  const double excess = flop_ratio / time_ratio;  // 35 in the source
  answer.compare("a100_80gb_pcie",
                 "Softmax takes far more than its share of the operations: the products of attention take 5.9 times as "
                 "long, with 206 times its operations.",
                 excess >= 10 || excess <= 3 ? agreement(excess >= 10) : StudyClaim::Verdict::not_comparable,
                 "Here it is {} the time with {} the operations.", times(time_ratio), times(flop_ratio));
  return answer;
}

StudyAnswer optimizer_share(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "What share of a step does the optimizer take?"};
  const Json* step = profile_of(rows, "step");
  if (step == nullptr) return unanswered(answer, kPart);
  double time = 0, share = 0;
  for (const Json& each : field(*step, "profile.classes")) {
    if (text_at(each, "phase") != "optimizer") continue;
    time += number_at(each, "time_ms");
    share += number_at(each, "share_of_kernel_time");
  }
  answer.say("AdamW takes {}, {} of the kernel time of a step of {}{}", ms(time), percent(share), workload(*step),
             share > 0.15
                 ? ": it reads and writes every parameter and its two moments, however few tokens the batch has."
                 : ".");
  answer.add(kPart, "{}: optimizer {}", workload(*step), ms(time));
  return answer;
}

StudyAnswer limits(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "How far is a step from the machine's limit, and is the device ever idle?"};
  const Json* step = profile_of(rows, "step");
  if (step == nullptr) return unanswered(answer, kPart);
  const double wall = number_at(*step, "profile.time.profiled_ms");
  double recoverable = 0;
  const Json* largest = nullptr;
  for (const Json& each : field(*step, "profile.recoverable")) {
    recoverable += number_at(each, "recoverable_ms");
    if (largest == nullptr || number_at(each, "recoverable_ms") > number_at(*largest, "recoverable_ms"))
      largest = &each;
  }
  const double idle = number_at(*step, "profile.time.idle_ms") / wall;
  if (largest == nullptr) return unanswered(answer, kPart);
  answer.say(
      "At the measured rates of the machine {} of a step's {} could be saved, the largest part of it in {} ({}).",
      percent(recoverable / wall), ms(wall), text_at(*largest, "what"), ms_at(*largest, "recoverable_ms"));
  answer.sentence +=
      idle < 0.02
          ? fmt::format(" The device is idle {} of the time.", percent(idle))
          : fmt::format(" The device is idle {} of the time, so launching kernels costs time too.", percent(idle));
  for (const Json& each : field(*step, "profile.roofline")) {
    const double share = number_at(each, "share_of_ceiling");
    const std::string name = text_at(each, "class");
    answer.evidence.push_back(
        {kPart, share > 1 ? fmt::format("{}: {} the copy rate of main memory, so from the cache", name, times(share))
                          : fmt::format("{}: {} of its ceiling, bound by {}", name, percent(share),
                                        text_at(each, "bound_by"))});
  }
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_kernels(const StudyRows& rows) {
  return {trace_against_clock(rows), top_kernel(rows),      matmul_share(rows), other_kernels(rows),
          inside_attention(rows),    optimizer_share(rows), limits(rows)};
}

}  // namespace ridgepoint::answers
