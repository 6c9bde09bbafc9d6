#include "train/step_log.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "core/files/file.h"
#include "ridgepoint/error.h"
#include "tables/table/render.h"

namespace ridgepoint::train {
namespace {

constexpr std::uint64_t kMostHistoryBytes = std::uint64_t{4} << 30;

tables::Cell finite_cell(double value) { return std::isfinite(value) ? tables::Cell(value) : tables::Cell(); }

// Empty for what is no line of a step.
std::optional<std::int64_t> step_of(std::string_view line) {
  try {
    return parse_json(line).at("step").get<std::int64_t>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// The lines of steps up to the last one. What a killed run left of a line is no line.
std::string lines_until(const std::string& content, std::int64_t last_step) {
  std::string kept;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (step_of(line).value_or(last_step + 1) > last_step) break;
    kept.append(line).append("\n");
    begin = end + 1;
  }
  return kept;
}

}  // namespace

tables::Table step_table(std::span<const StepReport> steps) {
  tables::Table table;
  table.columns = {{"step", "step"},
                   {"loss", "loss", "{:.4f}"},
                   {"validation_loss", "validation loss", "{:.4f}"},
                   {"learning_rate", "learning rate", "{:.2e}", tables::Align::by_content, 2},
                   {"gradient_norm", "gradient norm", "{:.3g}", tables::Align::by_content, 2},
                   {"seconds", "seconds", "{:.3f}", tables::Align::by_content, 3},
                   {"tokens_per_second", "tokens/s", "{:.0f}", tables::Align::by_content, 1},
                   {"mfu", "MFU", tables::kPercent, tables::Align::by_content, 1},
                   {"checkpoint_seconds", "checkpoint", "{:.3f}", tables::Align::by_content, 5},
                   {"skipped_steps", "skipped", "{}", tables::Align::by_content, 4}};
  for (const StepReport& one : steps) {
    table.add({one.step, finite_cell(one.loss), tables::optional_cell(one.validation_loss), one.learning_rate,
               one.gradient_norm ? finite_cell(*one.gradient_norm) : tables::Cell(), one.seconds, one.tokens_per_second,
               tables::optional_cell(one.mfu), one.checkpoint_seconds, one.skipped_steps});
  }
  return table;
}

Json to_json(const StepReport& step) { return tables::to_json(step_table(std::span(&step, 1)))[0]; }

History::History(const std::filesystem::path& folder, std::int64_t last_step) {
  const std::filesystem::path path = path_in(folder);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const bool is_there = last_step > 0 && std::filesystem::exists(path, ignored);
  write_file(path, is_there ? lines_until(read_file(path, kMostHistoryBytes), last_step) : "");
  file_.open(path, std::ios::app);
  if (!file_) throw Error(fmt::format("cannot write '{}'", path.string()));
}

void History::add(const StepReport& step) { file_ << dump_json(to_json(step)) << '\n' << std::flush; }

}  // namespace ridgepoint::train
