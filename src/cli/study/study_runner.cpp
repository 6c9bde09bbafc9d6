#include "cli/study/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/run_rows.h"
#include "core/processes/child_process.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Commands whose sweeps take --skip, and print each row as soon as it is measured.
bool can_skip_rows(const StudyCommand& command) {
  constexpr std::array<std::string_view, 4> kSweeps = {"bench", "attention", "memory", "profile"};
  return command.rows > 0 && std::ranges::find(kSweeps, command.arguments.front()) != kSweeps.end();
}

// With the paths of files in the folder: {folder}/timelines/memory_step.csv.
std::string in_folder(std::string word, const StudyFolder& folder) {
  constexpr std::string_view kPlace = "{folder}/";
  for (std::size_t at = 0; (at = word.find(kPlace, at)) != std::string::npos;) {
    const std::size_t size = std::min(word.find(',', at), word.size()) - at;
    const std::string path = folder.file(word.substr(at + kPlace.size(), size - kPlace.size())).string();
    word.replace(at, size, path);
    at += path.size();
  }
  return word;
}

[[noreturn]] void throw_lost_rows(StudyPart part, std::int64_t found, std::int64_t logged) {
  throw Error(
      fmt::format("records/{}.jsonl has {} rows, and log.jsonl says that {} were measured; give --restart to measure "
                  "everything again",
                  name(part), found, logged));
}

}  // namespace

struct StudyRunner::Task {
  StudyPart part;
  std::string title;
  std::size_t index;  // of the command line, in its part
  const StudyCommand* command;
  std::int64_t rows_before = 0;  // of the part, by the command lines before this one
  std::int64_t rows_done = 0;    // by this one, before it was stopped
};

// What the log does not have. Of a part, one command line at most has begun, and it is the first of them.
std::vector<StudyRunner::Task> StudyRunner::open_tasks(std::span<const StudyPartPlan> plan) const {
  const std::vector<StudyLogEntry> log = folder_.log();
  std::vector<Task> tasks;
  for (const StudyPartPlan& part : plan) {
    std::int64_t logged_rows = 0;
    std::size_t ended = 0;
    for (const StudyLogEntry& entry : log) {
      if (entry.part != part.part) continue;
      logged_rows += entry.rows;
      ended = std::max(ended, entry.command + 1);
    }
    std::int64_t done = static_cast<std::int64_t>(folder_.rows(part.part).size()) - logged_rows;
    if (done < 0) throw_lost_rows(part.part, logged_rows + done, logged_rows);
    if (ended >= part.commands.size()) continue;
    if (done != 0 && !can_skip_rows(part.commands[ended])) {
      folder_.keep_rows(part.part, static_cast<std::size_t>(logged_rows));
      done = 0;
    }
    for (std::size_t i = ended; i < part.commands.size(); ++i) {
      tasks.push_back({part.part, part.title, i, &part.commands[i], logged_rows, i == ended ? done : 0});
    }
  }
  return tasks;
}

StudyLogEntry StudyRunner::run(const Task& task, const std::function<void(std::int64_t rows)>& show) const {
  const Clock::time_point begin = Clock::now();
  StudyLogEntry entry{.part = task.part, .command = task.index, .rows = task.rows_done, .problem = ""};
  const std::int64_t rows = task.command->rows;
  if (rows == 0 || entry.rows < rows) {
    std::vector<std::string> words = {"/proc/self/exe"};
    for (const std::string& word : task.command->arguments) words.push_back(in_folder(word, folder_));
    words.insert(words.end(), {"--format", "jsonl"});
    if (entry.rows > 0) words.insert(words.end(), {"--skip", std::to_string(entry.rows)});
    ChildProcess process(words);
    for (;;) {
      const std::optional<std::string> line = process.read_line([&] {
        show(entry.rows);
        stop_if_interrupted();
      });
      if (!line) break;
      folder_.append_row(task.part, *line);
      ++entry.rows;
    }
    entry.exit_code = process.wait();
    if (entry.exit_code != 0) entry.problem = process.last_error_line();
  }
  entry.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return entry;
}

void StudyRunner::show(const Task& task, std::int64_t done, Progress& progress) {
  const std::int64_t rows = task.command->rows;
  if (rows == 0) return progress.update(task.command->arguments.front(), 0);
  progress.update(fmt::format("{} row {}/{}", task.command->arguments.front(), std::min(done + 1, rows), rows),
                  static_cast<double>(done) / static_cast<double>(rows));
}

void StudyRunner::run(std::span<const StudyPartPlan> plan) {
  const std::vector<Task> tasks = open_tasks(plan);
  std::vector<RowOutline> outlines;
  for (const Task& task : tasks) outlines.push_back({task.title, task.command->seconds});
  run_rows(outlines, [&](std::size_t at, Progress& progress) {
    folder_.append(run(tasks[at], [&](std::int64_t done) { show(tasks[at], done, progress); }));
    return true;
  });
  stop_if_interrupted();
}

}  // namespace ridgepoint::cli
