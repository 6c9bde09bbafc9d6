#include "study/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "predict/cards/datasheet.h"
#include "study/plan/planner.h"

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
    throw_error(
        "study.json is not the plan of this study: {} {} is {} instead of {}; give --restart to measure "
        "everything again, or name another folder with --output",
        place, i + 1, text_of(has), text_of(wanted));
  }
}

// Throws Json::exception for a row that is not as `devices` writes it.
StudyMachine machine_from(const Json& row, std::string_view device) {
  StudyMachine machine;
  machine.device = device;
  machine.name = row.value("name", "");
  machine.memory_bytes = row.value("total_memory_bytes", std::int64_t{0});
  if (row.contains("copy")) machine.bytes_per_second = row.at("copy").value("bytes_per_second", 0.0);
  if (!row.contains("matmul")) return machine;
  for (const Json& rate : row.at("matmul")) {
    const auto name = rate.at("dtype").get<std::string>();
    if (name == "tf32" || name == "fp8") continue;  // ways to compute products, not types; no part uses them
    machine.flops_per_second[dtype_from_name(name)] = rate.at("flops_per_second").get<double>();
  }
  return machine;
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

std::vector<std::string> timeline_files(const StudyPartPlan& part) {
  constexpr std::string_view kFolder = "{folder}/";
  std::vector<std::string> files;
  for (const StudyCommand& command : part.commands) {
    const auto option = std::ranges::find(command.arguments, "--timeline");
    if (option == command.arguments.end() || std::next(option) == command.arguments.end()) continue;
    const std::string& names = *std::next(option);
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t end = std::min(names.find(',', begin), names.size());
      const std::string_view name = std::string_view(names).substr(begin, end - begin);
      begin = end + 1;
      if (!name.starts_with(kFolder)) continue;
      const std::filesystem::path file(name.substr(kFolder.size()));
      const std::filesystem::path parent = file.parent_path();
      // The command line may be anyone's, and lead elsewhere.
      if ((parent == "timelines" || parent == "pictures") && file.filename() != "..") files.push_back(file.string());
    }
  }
  return files;
}

StudyPartPlan devices_part(const StudySettings& settings) {
  StudyCommand command{.arguments = {"devices"}, .rows = 0, .seconds = 3};
  if (settings.threads > 0)
    command.arguments.insert(command.arguments.end(), {"--threads", std::to_string(settings.threads)});
  return {StudyPart::devices, "Devices and their measured rates", {std::move(command)}};
}

std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings) {
  plan::Planner planner(machine, settings);
  plan::add_parts(planner);
  return planner.take();
}

void require_same_plan(std::span<const StudyPartPlan> noted, std::span<const StudyPartPlan> planned) {
  require_same(noted, planned, "part");
  for (std::size_t i = 0; i < planned.size(); ++i) {
    require_same<StudyCommand>(noted[i].commands, planned[i].commands,
                               fmt::format("of the part '{}', command", name(planned[i].part)));
  }
}

StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device) {
  // `devices` calls the first GPU cuda:0, and cuda where it cannot be used.
  const auto is_device = [&](const Json& row) {
    const auto kind = row.find("kind");
    if (kind == row.end()) return false;
    const bool is_first_gpu = device == "cuda" || device == "cuda:0";
    return *kind == device || (is_first_gpu && (*kind == "cuda" || *kind == "cuda:0"));
  };
  const auto row = std::ranges::find_if(rows, is_device);
  if (row == rows.end()) throw_error("the devices that were found do not have '{}'", device);
  std::string problem;
  try {
    problem = row->value("problem", "");
    if (problem.empty()) return machine_from(*row, device);
  } catch (const Json::exception&) {
    throw_error(
        "records/devices.jsonl is damaged: the row of '{}' is not as 'ridgepoint devices' writes "
        "it; give --restart to measure everything again",
        device);
  }
  throw_error("{}: {}", device, problem);
}

StudyMachine study_machine(const Datasheet& card) {
  StudyMachine machine{.device = "null",
                       .name = std::string(card.card),
                       .memory_bytes = card.memory_bytes,
                       .flops_per_second = {},
                       .bytes_per_second = card.bytes_per_second};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (const auto rate = datasheet_flops_per_second(card, name(dtype))) machine.flops_per_second[dtype] = *rate;
  }
  return machine;
}

}  // namespace ridgepoint
