// Rows that were planned instead of measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

// "61.8 GiB, which fits into 78.2 GiB"; where the capacity is not known, the peak alone; empty for an unknown peak.
std::string memory_of(const Json& row) {
  const bool runs_out = text_at(row, "status") == "oom";
  if (!has(number_at(row, runs_out ? kPlannedPeak : kPeak))) return "";
  if (runs_out) {
    const double request = number_at(row, "error.requested_bytes");
    return fmt::format("{}, out of memory{}", bytes_at(row, kPlannedPeak),
                       has(request) ? fmt::format(" at a request of {}", bytes(request)) : "");
  }
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

// "small, 4 x 256, fp32, step, compile off, checkpoint none", "flash attention, 1 x 256, d 64, fp32, forward_backward,
// compile off".
std::string planned_run(const Json& row) {
  if (text_at(row, "model.name").empty())
    return fmt::format("{} attention{}, {}, {}, compile {}", text_at(row, "attention"), fallback(row), workload(row),
                       text_at(row, "mode"), text_at(row, "compile"));
  return fmt::format("{}, {}, compile {}, checkpoint {}{}", workload(row), text_at(row, "mode"),
                     text_at(row, "compile"), text_at(row, "checkpoint"), ranks_of(row));
}

// How well planned and measured memory agree, in the rows that have both.
void say_agreement(StudyAnswer& answer, const StudyRows& rows) {
  std::size_t count = 0, equal = 0;
  double most = 0;  // as a share
  for (const auto& [part, all] : rows) {
    for (const Json& row : all) {
      const double off = std::abs(number_at(row, kPlannedPeak) / number_at(row, kPeak) - 1);
      if (is_planned(row) || !has(off)) continue;
      ++count;
      equal += off == 0 ? 1 : 0;
      most = std::max(most, off);
    }
  }
  if (count == 0) return;
  answer.say("The planned peak is the measured one in {} of {} measured rows{}.", equal, count,
             most == 0 ? "" : fmt::format("; the largest difference is {:.2g} %", 100 * most));
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
  std::vector<std::string> cards, parts;
  bool has_times = false;
  std::map<std::string, std::size_t> problems;  // and how many rows have them
  const auto note = [](std::vector<std::string>& names, std::string name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  for (const auto& [part, all] : rows) {
    for (const Json& row : all) {
      if (!is_planned(row)) continue;
      ++count;
      note(cards, text_at(row, "device.name"));
      note(parts, std::string(name(part)));
      std::vector<std::string> figures;
      if (has(number_at(row, "predicted_ms")))
        figures.push_back(fmt::format("{} ({} to {})", ms_at(row, "predicted_ms"), ms_at(row, "predicted_low_ms"),
                                      ms_at(row, "predicted_high_ms")));
      has_times |= !figures.empty();
      if (std::string memory = memory_of(row); !memory.empty()) figures.push_back(std::move(memory));
      if (figures.empty()) continue;
      const std::string problem = text_at(row, "predicted_problem");
      if (!problem.empty()) ++problems[problem];
      answer.add(part, "{}{}: {}", planned_run(row), problem.empty() ? "" : " ~", fmt::join(figures, ", "));
    }
  }
  if (count == 0) return {};
  answer.say("{} row{} of {} {} planned{}, not measured.", count, count == 1 ? "" : "s", fmt::join(parts, ", "),
             count == 1 ? "is" : "are", cards.empty() ? "" : fmt::format(" for {}", fmt::join(cards, ", ")));
  say_agreement(answer, rows);
  if (has_times) answer.say("A planned time is a prediction; its range stands in parentheses.");
  for (const auto& [problem, of_problem] : problems)
    answer.say("{} of the {} rows below, marked ~: {}", of_problem, answer.evidence.size(), problem);
  return {answer};
}

}  // namespace ridgepoint::answers
