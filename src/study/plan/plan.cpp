#include "study/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/text.h"
#include "study/plan/planner.h"
#include "study/plan/topics.h"

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

std::string text_of(const StudyPartPlan* part) {
  return part == nullptr ? "no part" : fmt::format("the part '{}', '{}'", name(part->part), printable(part->title));
}

std::string text_of(const StudyCommand* command) {
  if (command == nullptr) return "no command line";
  return fmt::format("'{}' with {} rows", printable(fmt::format("{}", fmt::join(command->arguments, " "))),
                     command->rows);
}

bool is_same(const StudyPartPlan& a, const StudyPartPlan& b) { return a.part == b.part && a.title == b.title; }

bool is_same(const StudyCommand& a, const StudyCommand& b) { return a.arguments == b.arguments && a.rows == b.rows; }

// Throws Error for the first place where the lists differ. `place` says what is numbered.
template <typename Item>
void require_same(std::span<const Item> noted, std::span<const Item> planned, const std::string& place) {
  for (std::size_t i = 0; i < std::max(noted.size(), planned.size()); ++i) {
    const Item* has = i < noted.size() ? &noted[i] : nullptr;
    const Item* wanted = i < planned.size() ? &planned[i] : nullptr;
    if (has != nullptr && wanted != nullptr && is_same(*has, *wanted)) continue;
    throw Error(
        fmt::format("study.json is not the plan of this study: {} {} is {} instead of {}; give --restart to measure "
                    "everything again, or name another folder with --output",
                    place, i + 1, text_of(has), text_of(wanted)));
  }
}

}  // namespace

std::int64_t StudyPartPlan::rows() const {
  std::int64_t rows = 0;
  for (const StudyCommand& command : commands) rows += command.rows;
  return rows;
}

double StudyPartPlan::seconds() const {
  double seconds = 0;
  for (const StudyCommand& command : commands) seconds += command.seconds;
  return seconds;
}

StudyPartPlan devices_part(const StudySettings& settings) {
  StudyCommand command{.arguments = {"devices"}, .rows = 0, .seconds = 3};
  if (settings.threads > 0)
    command.arguments.insert(command.arguments.end(), {"--threads", std::to_string(settings.threads)});
  return {StudyPart::devices, "Devices and their measured rates", {std::move(command)}};
}

std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings) {
  plan::Planner planner(machine, settings);
  plan::add_steps(planner);
  plan::add_precision(planner);
  plan::add_memory(planner);
  plan::add_attention(planner);
  plan::add_policies(planner);
  if (settings.ranks > 1) plan::add_ranks(planner);
  return planner.take();
}

void require_same_plan(std::span<const StudyPartPlan> noted, std::span<const StudyPartPlan> planned) {
  require_same(noted, planned, "part");
  for (std::size_t i = 0; i < planned.size(); ++i) {
    require_same<StudyCommand>(noted[i].commands, planned[i].commands,
                               fmt::format("of the part '{}', command", name(planned[i].part)));
  }
}

}  // namespace ridgepoint
