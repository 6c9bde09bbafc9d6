#include "train/step_log.h"

#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "tables/table/render.h"

namespace ridgepoint::train {
namespace {

constexpr std::uint64_t kMostHistoryBytes = std::uint64_t{4} << 30;

tables::Cell finite_cell(std::optional<double> value) {
  return value && std::isfinite(*value) ? tables::Cell(*value) : tables::Cell();
}

template <typename T>
T member(const Json& row, const char* key, T otherwise) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return otherwise;
  const bool is_right = std::is_same_v<T, std::string>    ? found->is_string()
                        : std::is_same_v<T, std::int64_t> ? found->is_number_integer()
                                                          : found->is_number();
  if (!is_right) throw_error("'{}' of a step is {}", key, dump_json(*found));
  return found->get<T>();
}

std::optional<double> optional_member(const Json& row, const char* key) {
  const double value = member(row, key, std::nan(""));
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

StepReport step_of(const Json& row) {
  if (!is_step(row)) throw Error("a row is no step of a training: it lacks 'step', 'loss' or 'learning_rate'");
  return {.step = member(row, "step", std::int64_t{0}),
          .loss = member(row, "loss", std::nan("")),
          .validation_loss = optional_member(row, "validation_loss"),
          .learning_rate = member(row, "learning_rate", 0.0),
          .gradient_norm = optional_member(row, "gradient_norm"),
          .micro_gradient_norm = optional_member(row, "micro_gradient_norm"),
          .noise_scale = optional_member(row, "noise_scale"),
          .seconds = member(row, "seconds", 0.0),
          .checkpoint_seconds = member(row, "checkpoint_seconds", 0.0),
          .tokens_per_second = member(row, "tokens_per_second", 0.0),
          .mfu = optional_member(row, "mfu"),
          .skipped_steps = member(row, "skipped_steps", std::int64_t{0}),
          .peak_allocated_bytes = member(row, "peak_allocated", std::int64_t{0}),
          .tokens = member(row, "tokens", std::int64_t{0}),
          .first_sequence = member(row, "first_sequence", std::int64_t{0}),
          .data = member(row, "data", std::string())};
}

// Empty for what is no line of a step.
std::optional<std::int64_t> step_number(std::string_view line) {
  try {
    return parse_json(line).at("step").get<std::int64_t>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// The lines of steps up to the last step. A killed run's incomplete line does not count.
std::string lines_until(const std::string& content, std::int64_t last_step) {
  std::string kept;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (step_number(line).value_or(last_step + 1) > last_step) break;
    kept.append(line).append("\n");
    begin = end + 1;
  }
  return kept;
}

}  // namespace

tables::Table step_table(std::span<const StepReport> steps, tables::Format format) {
  const bool is_for_people = tables::is_for_people(format);
  tables::Table table;
  table.columns = {{"step", "step"},
                   {"loss", "loss", "{:.4f}"},
                   {"validation_loss", "validation loss", "{:.4f}"},
                   {"learning_rate", "learning rate", "{:.2e}", tables::Align::by_content, 2},
                   {"gradient_norm", "gradient norm", "{:.3g}", tables::Align::by_content, 2},
                   {"noise_scale", "noise scale", "{:.0f}", tables::Align::by_content, 4},
                   {"seconds", "seconds", "{:.3f}", tables::Align::by_content, 3},
                   {"tokens_per_second", "tokens/s", "{:.0f}", tables::Align::by_content, 1},
                   {"mfu", "MFU", tables::kPercent, tables::Align::by_content, 1},
                   {"checkpoint_seconds", "checkpoint", "{:.3f}", tables::Align::by_content, 5},
                   {"skipped_steps", "skipped", "{}", tables::Align::by_content, 4}};
  if (!is_for_people)
    table.columns.insert(
        table.columns.end(),
        {{"micro_gradient_norm", ""}, {"peak_allocated", ""}, {"tokens", ""}, {"first_sequence", ""}, {"data", ""}});
  for (const StepReport& one : steps) {
    table.add({one.step, finite_cell(one.loss), tables::optional_cell(one.validation_loss), one.learning_rate,
               finite_cell(one.gradient_norm), tables::optional_cell(one.noise_scale), one.seconds,
               one.tokens_per_second, tables::optional_cell(one.mfu), one.checkpoint_seconds, one.skipped_steps});
    if (is_for_people) continue;
    tables::Cells& cells = table.rows.back().cells;
    cells.insert(cells.end(), {finite_cell(one.micro_gradient_norm), one.peak_allocated_bytes, one.tokens,
                               one.first_sequence, one.data});
  }
  return table;
}

Json to_json(const StepReport& step) {
  return tables::to_json(step_table(std::span(&step, 1), tables::Format::json))[0];
}

bool is_step(const Json& row) {
  return row.is_object() && row.contains("step") && row.contains("loss") && row.contains("learning_rate") &&
         !row.contains("schema");
}

StepHistory step_history(std::span<const Json> rows) {
  StepHistory history;
  for (const Json& row : rows) {
    StepReport step = step_of(row);
    std::vector<StepReport>& steps = history.steps;
    if (!steps.empty() && steps.back().step >= step.step) history.returns.push_back(steps.back().step);
    while (!steps.empty() && steps.back().step >= step.step) steps.pop_back();
    steps.push_back(std::move(step));
  }
  return history;
}

History::History(const std::filesystem::path& folder, std::int64_t last_step) {
  const std::filesystem::path path = path_in(folder);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const bool is_there = last_step > 0 && std::filesystem::exists(path, ignored);
  write_file(path, is_there ? lines_until(read_file(path, kMostHistoryBytes), last_step) : "");
  file_.open(path, std::ios::app);
  if (!file_) throw_error("cannot write '{}'", path.string());
}

void History::add(const StepReport& step) { file_ << dump_json(to_json(step)) << '\n' << std::flush; }

}  // namespace ridgepoint::train
