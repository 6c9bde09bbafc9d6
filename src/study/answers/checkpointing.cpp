// The memory that activation checkpointing saves and the time that it costs, by policy and by segment length.
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

// "302.9 ms", "302.9 ms by the plan", "no predicted time".
std::string time_of(const Json& row) {
  if (!is_planned(row)) return ms_at(row, kMedian);
  return has(number_at(row, "predicted_ms")) ? ms_at(row, "predicted_ms") + " by the plan" : "no predicted time";
}

// "1.26x as long", "302.9 ms instead of 240.1 ms by the plan".
std::string cost_of(const Json& none, const Json& row) {
  if (!is_planned(row)) return "is " + words(speedup(none, row));
  if (!has(number_at(row, "predicted_ms"))) return "has no predicted time";
  return fmt::format("takes {} instead of {}", ms_at(row, "predicted_ms"), time_of(none));
}

// The rows that differ only in their policy from the part's first row that ran.
Rows policies(const PartRows& rows, const Rows& of) {
  const Rows all = rows_of(rows, StudyPart::checkpointing);
  if (all.empty()) return {};
  return rows_like(of, *all.front(), {"command", "model.name", "mode", "dtype", "batch", "context", "compile"});
}
Rows policies(const PartRows& rows) { return policies(rows, rows_of(rows, StudyPart::checkpointing)); }
Rows policies_out_of_memory(const PartRows& rows) { return policies(rows, too_large(rows, StudyPart::checkpointing)); }

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
  const Json* failed = first_of(policies_out_of_memory(rows), {{"checkpoint", "none"}});
  if (all.empty() || (none != nullptr ? all.size() < 2 : failed == nullptr))
    return unanswered(answer, StudyPart::checkpointing);
  for (const Json* row : all) {
    answer.add(StudyPart::checkpointing, "{}: {}, peak {}, before backward {}, recomputed {}", policy_of(*row),
               time_of(*row), bytes_at(*row, kPeak), bytes_at(*row, "memory_bytes.before_backward"),
               flops(number_at(*row, "recomputed_flops")));
  }
  const Json& least = best_of(all);
  if (none == nullptr) {
    answer.say("Without checkpoints {} of {} runs out of memory, with a planned peak of {}; '{}' needs {}.",
               pass_name(text_at(*failed, "mode")), workload(*failed), bytes_at(*failed, kPlannedPeak),
               policy_of(least), bytes_at(least, kPeak));
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

// For one policy: the best segment length, the next smaller and larger lengths that ran, and the lengths that do not
// fit.
void say_best_segment(StudyAnswer& answer, const Rows& all, const Rows& failed, const char* policy) {
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
  answer.say("With '{}' the best of {} segments that fit has {}; its {} {}.", policy, segments.size(), figures(**best),
             neighbours.size() == 1 ? "neighbour has" : "neighbours have", fmt::join(neighbours, " and "));
  for (const Json* row : segments)
    answer.add(StudyPart::checkpointing, "{}: peak {}, {}", policy_of(*row), bytes_at(*row, kPeak), time_of(*row));
  std::vector<std::string> blocks;
  for (const Json* row : sorted_by(rows_of(failed, {{"checkpoint", policy}}), kSegment)) {
    blocks.push_back(fmt::format("{}", number_at(*row, kSegment)));
    answer.add(StudyPart::checkpointing, "{}: out of memory, with a planned peak of {}", policy_of(*row),
               bytes_at(*row, kPlannedPeak));
  }
  if (!blocks.empty()) answer.say("Segments of {} blocks do not fit.", fmt::join(blocks, " and "));
}

StudyAnswer segments(const PartRows& rows) {
  StudyAnswer answer{kCheckpointingTopic, "How many blocks should a checkpointed segment have, one level and nested?"};
  const Rows all = policies(rows), failed = policies_out_of_memory(rows);
  for (const char* policy : {"block", "nested"}) say_best_segment(answer, all, failed, policy);
  if (!answer.sentence.empty()) answer.say("The best has the least time of those within 1 % of the lowest peak.");
  return answer.sentence.empty() ? unanswered(answer, StudyPart::checkpointing) : answer;
}

}  // namespace

std::vector<StudyAnswer> about_checkpointing(const PartRows& rows) {
  std::vector<StudyAnswer> answers = {savings(rows)};
  // Studies without an edition compare only policies.
  if (StudyAnswer of_segments = segments(rows); !of_segments.missing || answers.front().missing)
    answers.push_back(std::move(of_segments));
  return answers;
}

}  // namespace ridgepoint::answers
