// Where the time of a forward pass and of a step goes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ridgepoint/graph.h"
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

StudyAnswer trace_against_clock(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "Does the time of the kernels agree with the wall clock?"};
  for (const char* mode : {"forward", "step"}) {
    const Json* row = profile_of(rows, mode);
    if (row == nullptr) continue;
    const double kernels = number_at(*row, "profile.time.kernels_ms");
    const double timed = number_at(*row, "profile.time.timed_ms");
    const double profiled = number_at(*row, "profile.time.profiled_ms");
    const double gap = kernels / timed - 1;
    answer.add(kPart, "{}, {}: kernels {}, idle {}, timed without the profiler {}{}: {:+.1f} %", workload(*row), mode,
               ms(kernels), ms_at(*row, "profile.time.idle_ms"), ms(timed), doubt(*row), 100 * gap);
    answer.say("The kernels of {} take {:+.1f} % against the iteration timed without the profiler{}{}.",
               pass_name(mode), 100 * gap, doubt(*row),
               has(profiled)
                   ? fmt::format("; with the idle time between them it is {:+.1f} %", 100 * (profiled / timed - 1))
                   : "");
    if (mode != std::string_view("forward")) continue;
    judge(answer,
          {.source = "a100_80gb_pcie",
           .text = "The forward time of the trace agrees with the wall clock within 4 %.",
           .figures = {{0, 0.04}},
           .of = {{"model.name", "small"}, {"context", 256}}},
          *row,
          {.figures = {exactly(std::abs(gap))},
           .text = fmt::format("they differ by {}", percent(std::abs(gap))),
           .doubt = doubt(*row)});
  }
  return answer.evidence.empty() ? unanswered(answer, kPart) : answer;
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
  answer.say("In a forward pass it is {}{}.", described_kernel(top), doubt(*forward));
  if (const Json* step = profile_of(rows, "step"); step != nullptr) {
    const Json& top_of_step = longest_kernel(*step);
    answer.sentence +=
        text_at(top, "name") == text_at(top_of_step, "name")
            ? fmt::format(" It is the same in a training step: {}{}.", described_kernel(top_of_step), doubt(*step))
            : fmt::format(" In a training step it is another one: {}{}.", described_kernel(top_of_step), doubt(*step));
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

// The source has the shares of `small`.
void judge_share(StudyAnswer& answer, std::string text, Range agreeing, double found, const Json& row) {
  judge(answer,
        {.source = "a100_80gb_pcie",
         .text = std::move(text),
         .figures = {agreeing},
         .of = {{"model.name", "small"}, {"context", 256}}},
        row, {.figures = {exactly(found)}, .text = fmt::format("it is {}", percent(found)), .doubt = doubt(row)});
}

StudyAnswer matmul_share(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic, "What share of the time do matrix products take, in a forward pass and in a step?"};
  const Json* forward = profile_of(rows, "forward");
  const Json* step = profile_of(rows, "step");
  if (forward == nullptr || step == nullptr) return unanswered(answer, kPart);
  const double in_forward = shares_of(*forward)["matmul"];
  const double in_step = shares_of(*step)["matmul"];
  answer.say(
      "Matrix products take {} of the kernel time of a forward pass{} and {} of the kernel time of a training step{}.",
      percent(in_forward), doubt(*forward), percent(in_step), doubt(*step));
  std::vector<std::string> phases;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const std::string_view phase = name(static_cast<Phase>(i));
    std::map<std::string, double> of_phase = shares_of(*step, phase);
    double all = 0;
    for (const auto& [kernels, share] : of_phase) all += share;
    if (all >= 0.005)
      phases.push_back(
          fmt::format("{} of {} ({} of the step)", percent(of_phase["matmul"] / all), phase, percent(all)));
  }
  if (phases.size() > 1) answer.say("Within the step they are {}.", fmt::join(phases, ", "));
  for (const auto& [mode, row] : {std::pair("forward", forward), std::pair("step", step)}) {
    std::vector<std::string> parts;
    for (const auto& [name, share] : shares_of(*row)) parts.push_back(fmt::format("{} {}", name, percent(share)));
    answer.add(kPart, "{}: {}", mode, fmt::join(parts, ", "));
  }
  judge_share(answer, "Matrix products take 75 to 78 % of a forward pass.", {0.73, 0.80}, in_forward, *forward);
  judge_share(answer, "Matrix products take 59 % of a training step.", {0.57, 0.61}, in_step, *step);
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
      answer.say("In {} none takes 0.5 %{}.", pass_name(mode), doubt(*row));
    } else {
      answer.say("In {} {} kernels take the most, {}{}.", pass_name(mode), others.front().first,
                 percent(others.front().second), doubt(*row));
    }
  }
  return answer.evidence.empty() ? unanswered(answer, kPart) : answer;
}

StudyAnswer inside_attention(const StudyRows& rows) {
  StudyAnswer answer{kKernelsTopic,
                     "Inside attention, how do softmax and the products compare, in time and in operations?"};
  const Json* forward = profile_of(rows, "forward");
  if (forward == nullptr || field(*forward, "profile.attention").empty()) return unanswered(answer, kPart);
  double product_ms = 0, softmax_ms = 0, product_flops = 0, softmax_flops = 0, softmax_bytes = 0, all_ms = 0;
  for (const Json& part : field(*forward, "profile.attention")) {
    const std::string name = text_at(part, "part");
    const double time = number_at(part, "time_ms");
    all_ms += time;
    if (name.ends_with("matmul")) product_ms += time, product_flops += number_at(part, "flops");
    if (name == "softmax") {
      softmax_ms += time, softmax_flops += number_at(part, "flops");
      softmax_bytes += number_at(part, "bytes");
    }
    answer.add(kPart, "{}: {}, {}", name, ms(time), flops(number_at(part, "flops")));
  }
  if (answer.evidence.empty()) return unanswered(answer, kPart);
  if (!(softmax_ms > 0 && product_ms > 0 && softmax_flops > 0)) {
    answer.sentence = "No row inside attention is softmax alone, so it has no time of its own.";
    return answer;
  }
  const double time_ratio = product_ms / softmax_ms;
  const double flop_ratio = product_flops / softmax_flops;
  answer.say(
      "The two products take {} the time of softmax{}, with {} its operations; softmax is {} of the time of attention.",
      times(time_ratio), doubt(*forward), times(flop_ratio), percent(softmax_ms / all_ms));
  const double rate_share = softmax_bytes / (softmax_ms / 1e3) / number_at(*forward, "profile.copy_bytes_per_second");
  if (rate_share > 1) {
    answer.say("Softmax moves {} at {} the copy rate of main memory, so a part of them comes from the cache.",
               bytes(softmax_bytes), times(rate_share));
  } else if (rate_share > 0) {
    answer.say("Softmax moves {} at {} of the copy rate of main memory.", bytes(softmax_bytes), percent(rate_share));
  }
  judge(answer,
        {.source = "a100_80gb_pcie",
         .text = "Softmax takes far more than its share of the operations: the products of attention take 5.9 times as "
                 "long, with 206 times its operations.",
         .figures = {{5.3, 6.5}, {196, 216}},
         .of = {{"model.name", "small"}, {"context", 256}}},
        *forward,
        {.figures = {exactly(time_ratio), exactly(flop_ratio)},
         .text = fmt::format("it is {} the time with {} the operations", times(time_ratio), times(flop_ratio)),
         .doubt = doubt(*forward)});
  return answer;
}

// "67 % of its ceiling, bound by matmul rate": how far a class of kernels is from the roofline.
std::string of_ceiling(const Json& roofline_row) {
  const double share = number_at(roofline_row, "share_of_ceiling");
  const std::string bound = text_at(roofline_row, "bound_by");
  return bound == "cache" ? fmt::format("{} the copy rate of main memory, so from the cache", times(share))
                          : fmt::format("{} of its ceiling, bound by {}", percent(share), bound);
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
  if (!(time > 0)) return unanswered(answer, kPart);
  answer.say("The optimizer ({}) takes {}, {} of the kernel time of a step of {}{}.", text_at(*step, "optimizer"),
             ms(time), percent(share), workload(*step), doubt(*step));
  for (const Json& each : field(*step, "profile.roofline")) {
    if (text_at(each, "class") != "optimizer" || !has(number_at(each, "bytes"))) continue;
    answer.say("It moves {}, at {}.", bytes_at(each, "bytes"), of_ceiling(each));
  }
  answer.add(kPart, "{}: optimizer {}{}", workload(*step), ms(time), doubt(*step));
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
      "At the measured rates of the machine {} of a step's {}{} could be saved, the largest part of it in {} ({}).",
      percent(recoverable / wall), ms(wall), doubt(*step), text_at(*largest, "what"),
      ms_at(*largest, "recoverable_ms"));
  const Json* cause = nullptr;
  for (const Json& each : field(*step, "profile.idle")) {
    if (cause == nullptr || number_at(each, "time_ms") > number_at(*cause, "time_ms")) cause = &each;
  }
  answer.say("The device is idle {} of the time{}.", percent(idle),
             cause == nullptr ? ""
                              : fmt::format(", most of it by the cause '{}' ({})", text_at(*cause, "cause"),
                                            ms_at(*cause, "time_ms")));
  for (const Json& each : field(*step, "profile.roofline"))
    answer.add(kPart, "{}: {}", text_at(each, "class"), of_ceiling(each));
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_kernels(const StudyRows& rows) {
  return {trace_against_clock(rows), top_kernel(rows),      matmul_share(rows), other_kernels(rows),
          inside_attention(rows),    optimizer_share(rows), limits(rows)};
}

}  // namespace ridgepoint::answers
