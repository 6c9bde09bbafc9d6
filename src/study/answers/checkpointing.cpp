// What activation checkpointing saves and costs, by policy and by the blocks of a segment.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kCheckpointingTopic = "Checkpointing";
constexpr const char* kSegment = "checkpoint_segment";

// "block", "nested with 4 blocks a segment".
std::string policy_of(const Json& row) {
  const double blocks = number_at(row, kSegment);
  std::string policy = text_at(row, "checkpoint");
  if (!has(blocks)) return policy;
  return fmt::format("{} with {:.0f} block{} a segment", policy, blocks, blocks == 1 ? "" : "s");
}

// "302.9 ms", "302.9 ms by the plan".
std::string time_of(const Json& row) {
  return is_planned(row) ? ms_at(row, "predicted_ms") + " by the plan" : ms_at(row, kMedian);
}

// "1.26x as long", "302.9 ms instead of 240.1 ms by the plan".
std::string cost_of(const Json& none, const Json& row) {
  if (!is_planned(row)) return "is " + words(speedup(none, row));
  if (!has(number_at(row, "predicted_ms"))) return "has no predicted time";
  return fmt::format("takes {} instead of {}", ms_at(row, "predicted_ms"), time_of(none));
}

// The rows of the part that differ in their policy alone.
Rows policies(const PartRows& rows) {
  const Rows all = rows_of(rows, StudyPart::checkpointing);
  if (all.empty()) return {};
  return rows_like(all, *all.front(), {"command", "model.name", "mode", "dtype", "batch", "context", "compile"});
}

// The row without checkpoints that ran out of memory; null: none did.
const Json* none_out_of_memory(const PartRows& rows) {
  const auto part = rows.find(StudyPart::checkpointing);
  if (part == rows.end()) return nullptr;
  const auto found = std::ranges::find_if(part->second, [](const Json* row) {
    return text_at(*row, "checkpoint") == "none" && text_at(*row, "status") == "oom" &&
           has(number_at(*row, "memory_bytes.planned_peak"));
  });
  return found == part->second.end() ? nullptr : *found;
}

// Of the rows whose peak is within 1 % of the lowest, the one with the least time.
const Json& best_of(const Rows& rows) {
  const auto peak = [](const Json* row) { return number_at(*row, kPeak); };
  const auto time = [](const Json* row) {
    const double ms = number_at(*row, is_planned(*row) ? "predicted_ms" : kMedian);
    return has(ms) ? ms : std::numeric_limits<double>::infinity();
  };
  const double lowest = peak(*std::ranges::min_element(rows, {}, peak));
  Rows low;
  std::ranges::copy_if(rows, std::back_inserter(low), [&](const Json* row) { return peak(row) <= 1.01 * lowest; });
  return **std::ranges::min_element(low, {}, time);
}

StudyAnswer savings(const PartRows& rows) {
  StudyAnswer answer{kCheckpointingTopic, "What does checkpointing save, and what does it cost?"};
  const Rows all = policies(rows);
  const Json* none = first_of(all, {{"checkpoint", "none"}});
  const Json* too_large = none_out_of_memory(rows);
  if (all.empty() || (none != nullptr ? all.size() < 2 : too_large == nullptr))
    return unanswered(answer, StudyPart::checkpointing);
  for (const Json* row : all) {
    answer.add(StudyPart::checkpointing, "{}: {}, peak {}, before backward {}, recomputed {}", policy_of(*row),
               time_of(*row), bytes_at(*row, kPeak), bytes_at(*row, "memory_bytes.before_backward"),
               flops(number_at(*row, "recomputed_flops")));
  }
  const Json& least = best_of(all);
  if (none == nullptr) {
    answer.say("Without checkpoints {} needs {}, more than the device has; '{}' needs {}.", workload(*too_large),
               bytes_at(*too_large, "memory_bytes.planned_peak"), policy_of(least), bytes_at(least, kPeak));
    return answer;
  }
  if (&least == none) {
    answer.say("No policy lowers the peak of {} at this size.", workload(*none));
    return answer;
  }
  answer.say("Of the policies '{}' has the lowest peak of {}: {} instead of {} ({} less). In return {} {}.",
             policy_of(least), workload(*none), bytes_at(least, kPeak), bytes_at(*none, kPeak),
             percent(1 - number_at(least, kPeak) / number_at(*none, kPeak)), pass_name(text_at(*none, "mode")),
             cost_of(*none, least));
  return answer;
}

// Of segments of one policy, the best and the next smaller and larger ones that were run.
void say_best_segment(StudyAnswer& answer, const Rows& all, const char* policy) {
  const Rows segments = sorted_by(rows_of(all, {{"checkpoint", policy}}), kSegment);
  if (segments.size() < 2) return;
  const auto best = std::ranges::find(segments, &best_of(segments));
  const auto figures = [](const Json& row) {
    const double blocks = number_at(row, kSegment);
    return fmt::format("{:.0f} block{} ({}, {})", blocks, blocks == 1 ? "" : "s", bytes_at(row, kPeak), time_of(row));
  };
  std::vector<std::string> neighbours;
  if (best != segments.begin()) neighbours.push_back(figures(**std::prev(best)));
  if (std::next(best) != segments.end()) neighbours.push_back(figures(**std::next(best)));
  answer.say("With '{}' the best segment has {}; its neighbours have {}.", policy, figures(**best),
             fmt::join(neighbours, " and "));
  for (const Json* row : segments)
    answer.add(StudyPart::checkpointing, "{}: peak {}, {}", policy_of(*row), bytes_at(*row, kPeak), time_of(*row));
}

StudyAnswer segments(const PartRows& rows) {
  StudyAnswer answer{kCheckpointingTopic, "How many blocks should a checkpointed segment have, one level and nested?"};
  const Rows all = policies(rows);
  for (const char* policy : {"block", "nested"}) say_best_segment(answer, all, policy);
  if (!answer.sentence.empty()) answer.say("The best has the least time of those within 1 % of the lowest peak.");
  return answer.sentence.empty() ? unanswered(answer, StudyPart::checkpointing) : answer;
}

}  // namespace

std::vector<StudyAnswer> about_checkpointing(const PartRows& rows) {
  std::vector<StudyAnswer> answers = {savings(rows)};
  // Studies that are like no edition compare policies alone.
  if (StudyAnswer of_segments = segments(rows); !of_segments.missing || answers.front().missing)
    answers.push_back(std::move(of_segments));
  return answers;
}

}  // namespace ridgepoint::answers
