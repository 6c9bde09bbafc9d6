// Rows that were planned instead of measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

// "61.8 GiB, which fits into 78.2 GiB"; where the capacity is not known, the peak alone.
std::string memory_of(const Json& row) {
  std::string peak = bytes_at(row, kPeak);
  if (!has(number_at(row, "capacity_bytes"))) return peak;
  return fmt::format("{}, which {} {}", peak, field(row, "fits") == true ? "fits into" : "does not fit into",
                     bytes_at(row, "capacity_bytes"));
}

// ", 2 ranks, shard none, gradients one by one behind backward"; empty for one rank.
std::string ranks_of(const Json& row) {
  const double ranks = number_at(row, "parallel.data");
  if (!has(ranks)) return "";
  return fmt::format(", {:.0f} ranks, shard {}, gradients {}", ranks, text_at(row, "parallel.shard"), way_of(row));
}

bool are_planned(const std::vector<Json>& rows) { return std::ranges::all_of(rows, is_planned); }

}  // namespace

void mark_planned(StudyAnswer& answer, const StudyRows& rows) {
  for (const StudyEvidence& evidence : answer.evidence) {
    const auto part = rows.find(evidence.part);
    if (part == rows.end() || !are_planned(part->second)) continue;
    const std::string card = text_at(part->second.front(), "device.name");
    return answer.say("These figures are planned{}, not measured.", card.empty() ? "" : " for " + card);
  }
}

bool is_about_planned(const StudyAnswer& answer, const StudyRows& rows) {
  if (!answer.missing) return false;
  const auto part = rows.find(*answer.missing);
  return part != rows.end() && are_planned(part->second);
}

PartRows measured_rows(const StudyRows& rows, bool or_planned) {
  PartRows kept;
  for (const auto& [part, all] : rows) {
    const bool takes_planned = or_planned && are_planned(all);
    for (const Json& row : all) {
      if (takes_planned || !is_planned(row)) kept[part].push_back(&row);
    }
  }
  return kept;
}

std::vector<StudyAnswer> about_plans(const StudyRows& rows) {
  StudyAnswer answer{"Plans", "What is planned instead of measured, and what does the plan predict?"};
  std::size_t count = 0;
  std::vector<std::string> cards, parts, problems;
  const auto note = [](std::vector<std::string>& names, std::string name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  for (const auto& [part, all] : rows) {
    for (const Json& row : all) {
      if (!is_planned(row)) continue;
      ++count;
      note(cards, text_at(row, "device.name"));
      note(parts, std::string(name(part)));
      note(problems, text_at(row, "predicted_problem"));
      if (has(number_at(row, "predicted_ms")))
        answer.add(part, "{}, {}, compile {}, checkpoint {}{}: {} ({} to {}), {}", workload(row), text_at(row, "mode"),
                   text_at(row, "compile"), text_at(row, "checkpoint"), ranks_of(row), ms_at(row, "predicted_ms"),
                   ms_at(row, "predicted_low_ms"), ms_at(row, "predicted_high_ms"), memory_of(row));
    }
  }
  if (count == 0) return {};
  answer.say("{} row{} of {} {} planned{}, not measured.", count, count == 1 ? "" : "s", fmt::join(parts, ", "),
             count == 1 ? "is" : "are", cards.empty() ? "" : fmt::format(" for {}", fmt::join(cards, ", ")));
  if (!answer.evidence.empty())
    answer.say("Planned memory is exact. A planned time is a prediction; its range stands in parentheses.");
  for (const std::string& problem : problems) answer.say("{}", problem);
  return {answer};
}

}  // namespace ridgepoint::answers
