// ridgepoint study: measures a whole study of training steps on this machine, and writes it down.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/card.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "cli/options/until.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/run_rows.h"
#include "cli/terminal/width.h"
#include "core/build_info.h"
#include "core/files/file.h"
#include "core/processes/child_process.h"
#include "core/seconds_since.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "interchange/huggingface/named_model.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "study/answer.h"
#include "study/folder.h"
#include "study/pages/parts.h"
#include "study/pages/study_files.h"
#include "study/plan/edition.h"
#include "study/plan/plan.h"

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
  throw_error(
      "records/{}.jsonl has {} rows, and log.jsonl says that {} were measured; give --restart to measure "
      "everything again",
      name(part), found, logged);
}

// Runs the command lines of a study's plan one after another, each in a process of its own, and keeps every row as soon
// as it is there. What the folder has already is not run again.
class StudyRunner {
 public:
  explicit StudyRunner(const StudyFolder& folder) : folder_(folder) {}

  // Throws Interrupted after Ctrl-C; finished rows are in the folder then. A command line that fails is noted in the
  // folder's log, and the others run.
  void run(std::span<const StudyPartPlan> plan);

 private:
  struct Task;
  std::vector<Task> open_tasks(std::span<const StudyPartPlan> plan) const;
  StudyLogEntry run(const Task& task, const std::function<void(std::int64_t rows)>& show) const;
  static void show(const Task& task, std::int64_t done, Progress& progress);

  const StudyFolder& folder_;
};

struct StudyRunner::Task {
  StudyPart part;
  std::string title;
  std::size_t index;  // of the command line, in its part
  const StudyCommand* command;
  std::int64_t rows_before = 0;  // of the part, by the command lines before this one
  std::int64_t rows_done = 0;    // by this one, before it was stopped
  std::int64_t rows_logged = 0;  // of rows_done, where it failed and is tried again
};

// What the log does not have, and behind it what failed before it had all of its rows: the disk was full, or a GPU was
// busy. Of a part, one command line at most has begun, and it is the first of them.
std::vector<StudyRunner::Task> StudyRunner::open_tasks(std::span<const StudyPartPlan> plan) const {
  const std::vector<StudyLogEntry> log = folder_.log();
  std::vector<Task> tasks;
  for (const StudyPartPlan& part : plan) {
    struct Logged {
      std::int64_t rows = 0;
      bool failed = false;  // the last time
    };
    std::int64_t logged_rows = 0;
    std::map<std::size_t, Logged> logged;  // by the number of the command line
    for (const StudyLogEntry& entry : log) {
      if (entry.part != part.part) continue;
      logged_rows += entry.rows;
      logged[entry.command].rows += entry.rows;
      logged[entry.command].failed = entry.exit_code != 0;
    }
    const std::size_t ended = logged.empty() ? 0 : logged.rbegin()->first + 1;
    std::int64_t done = static_cast<std::int64_t>(folder_.rows(part.part).size()) - logged_rows;
    if (done < 0) throw_lost_rows(part.part, logged_rows + done, logged_rows);
    const std::size_t first = tasks.size();
    for (std::size_t i = ended; i < part.commands.size(); ++i)
      tasks.push_back({part.part, part.title, i, &part.commands[i], logged_rows});
    for (const auto& [i, before] : logged) {
      if (i >= part.commands.size() || !before.failed) continue;
      const StudyCommand& command = part.commands[i];
      const bool can_go_on = before.rows == 0 || (can_skip_rows(command) && before.rows < command.rows);
      if (can_go_on) tasks.push_back({part.part, part.title, i, &command, logged_rows, before.rows, before.rows});
    }
    if (tasks.size() == first) continue;
    if (done != 0 && !can_skip_rows(*tasks[first].command)) {
      folder_.keep_rows(part.part, static_cast<std::size_t>(logged_rows));
      done = 0;
    }
    tasks[first].rows_done += done;
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
    if (entry.exit_code == kExitNothingFits) entry.exit_code = kExitOk;  // a result as any other
    if (entry.exit_code != 0) entry.problem = process.last_error_line();
  }
  entry.rows -= task.rows_logged;
  entry.seconds = seconds_since(begin);
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

std::vector<std::string_view> part_names() {
  const auto all = kStudyPartNames.all();
  return {all.begin(), all.end()};
}

class StudyCommandLine : public Command {
 public:
  std::string_view name() const override { return "study"; }
  std::string_view summary() const override {
    return "measure a whole study: steps, kernels, memory, attention; tables, answers, page";
  }
  std::string_view examples() const override {
    return "ridgepoint study\n"
           "ridgepoint study --quick --output quick\n"
           "ridgepoint study --like cs336-2025 --device cuda --output h100\n"
           "ridgepoint study --like cs336-2026 --plan-only --output b200\n"
           "ridgepoint study --device cuda --limit 20min --output h200\n"
           "ridgepoint study --device cuda --ranks 2 --output h200x2\n"
           "ridgepoint study --only devices,sizes,profile --model tiny\n"
           "ridgepoint study --output quick --no-run";
  }
  std::string_view notes() const override {
    return "The study runs command lines of this program, one after another, and keeps every row as soon as it is "
           "measured. A study that was stopped, in any way, goes on when the same command is given again. The folder "
           "has the rows (records), the tables, the pictures, the answers to the questions of the study with their "
           "evidence, a page (report.html), and README.md, which has the command line of everything. How many sizes "
           "are measured depends on the device and on --limit. With --like, what the device cannot run within the "
           "limit is planned for its card, or on a processor for the card of the course: memory, and the predicted "
           "time of models. docs/commands/study.md explains it.";
  }

  std::string_view why_not(std::string_view option) const override {
    if (option != "--workload") return "";
    return "a study needs models, whose steps, kernels, memory and attention it measures; bench --workload NAME times "
           "another workload";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup machine(app, "Machine");
    machine.add("--device", settings_.device, "NAME",
                "cpu, or cuda (cuda:1: the second GPU) [cuda if there is a GPU, else cpu]");
    add_option_of(app, "threads", settings_.threads);
    add_option_of(app, "memory-limit", settings_.memory_limit);
    machine.add("--ranks", settings_.ranks, "N",
                "also measure collectives and training steps on this number of ranks of this machine; 1: neither [1]");
    machine.add("--card", card_, "NAME",
                "measure nothing: plan for this card, which this machine need not have: h100, \"rtx 4090\"",
                card_names(), Takes::one);
    const OptionGroup study(app, "Study");
    study.add(
        "--like", settings_.like, "NAME",
        fmt::format("the models, lengths and rows of an edition of the exercise of Stanford CS336, assignment 2: {}",
                    fmt::join(edition_names(), ", ")),
        edition_names(), Takes::one);
    study.add_flag("--plan-only", is_plan_only_,
                   "measure nothing: plan for --card, or for the card of the course; rounding errors are computed on "
                   "the processor");
    study.add_flag("--quick", settings_.is_quick, "measure less: fewer sizes and iterations");
    study.add("--limit", limit_, "TIME",
              "choose rows that take this long: 4min, 1h [15min; 20min on a GPU, 3min with --quick]");
    study.add("--model", models_, "NAMES",
              "models to measure, the smallest first: presets, models of 'ridgepoint models' or paths of a config.json "
              "[by the device]",
              model_names(), Takes::list);
    add_option_of(app, "config-override", settings_.config_overrides, "Study");
    study.add("--only", only_, "NAMES", fmt::format("run these parts alone: {}", fmt::join(part_names(), ", ")),
              part_names(), Takes::list);
    study.add("--without", without_, "NAMES", "leave these parts out", part_names(), Takes::list);
    study.add_flag("--restart", restarts_, "remove the study that the folder has, and measure everything again");
    study.add_flag("--no-run", is_shown_only_,
                   "measure nothing: write tables, answers and page again from the rows that there are");
    const OptionGroup output(app, "Output");
    output.add("-o,--output", output_, "FOLDER", "the folder of the study [study]");
  }

  int run() override {
    const Json configuration = checked_configuration();
    const StudyFolder folder{std::filesystem::path(output_)};
    const Descriptor lock = open(folder, configuration);
    if (!is_shown_only_) measure(folder, configuration);
    return show(folder);
  }

 private:
  // With --card or --plan-only.
  void check_card() {
    if (card_.empty() && !is_plan_only_) return;
    require(settings_.device.empty(), "--card and --plan-only run nothing, and --device runs; leave one of them out");
    std::string name = card_;
    if (name.empty()) name = edition_named(settings_.like, {}).card;
    require(!name.empty(), "--plan-only: name the card to plan for, as in --card h100, or an edition with --like");
    const Datasheet& sheet = card_named(name);
    settings_.card = sheet.card;
    settings_.device = study_machine(sheet).device;
  }
  Json checked_configuration() {
    edition_named(settings_.like, {});
    check_card();
    if (settings_.device.empty()) settings_.device = default_device_name();
    require(settings_.is_plan() || settings_.device == "cpu" || settings_.device.starts_with("cuda"),
            "--device: a study runs on cpu or cuda, not on '{}'", settings_.device);
    require(settings_.threads >= 0, "--threads: {} is too small; the least is 0", settings_.threads);
    require(settings_.ranks >= 1, "--ranks: {} is too small; the least is 1", settings_.ranks);
    require(settings_.ranks == 1 || settings_.device.find(':') == std::string::npos,
            "--ranks: rank r takes the card with the number r; give --device cuda instead of {}", settings_.device);
    if (!settings_.memory_limit.empty())
      settings_.memory_limit_bytes = parse_option("--memory-limit", settings_.memory_limit, parse_bytes);
    settings_.limit_seconds = limit_.empty() ? default_limit() : parse_option("--limit", limit_, parse_seconds);
    if (!models_.empty()) settings_.models = parse_option("--model", models_, split_list);
    check_models();
    parts_ = parsed_parts("--only", only_);
    left_out_ = parsed_parts("--without", without_);
    require(settings_.like.empty() || settings_.models.empty(),
            "--model: {} names its models; leave one of the two options out", settings_.like);
    for (const StudyPart part : parts_) {
      const bool has_edition = !settings_.like.empty();
      require(has_edition || !is_of_editions(part), "--only: {} is a part of the editions of the exercise; add --like",
              ridgepoint::name(part));
      const bool has_ranks = part == StudyPart::ranks || part == StudyPart::sharded_memory;
      const bool needs_ranks = (has_ranks && !has_edition) || part == StudyPart::collectives;
      require(!needs_ranks || settings_.ranks > 1, "--only: {} need several ranks; add --ranks 2",
              ridgepoint::name(part));
    }
    require(!restarts_ || !is_shown_only_,
            "--restart measures again and --no-run measures nothing; give one of the two");
    return {{"program", fmt::format("{} ({})", version(), revision())},
            {"device", settings_.device},
            {"threads", settings_.threads},
            {"ranks", settings_.ranks},
            {"memory_limit", settings_.memory_limit},
            {"quick", settings_.is_quick},
            {"limit_seconds", settings_.limit_seconds},
            {"like", settings_.like},
            {"card", settings_.card},
            {"models", settings_.models},
            {"config_override", settings_.config_overrides},
            {"only", only_},
            {"without", without_}};
  }
  void check_models() const {
    const std::string& text = settings_.config_overrides;
    require(text.empty() || !settings_.models.empty(),
            "--config-override changes the config.json of a model; it needs --model");
    std::vector<ConfigOverride> overrides;
    if (!text.empty()) overrides = parse_option("--config-override", text, parse_config_overrides);
    for (const std::string& model : settings_.models) named_model(model, overrides);
  }
  static std::vector<StudyPart> parsed_parts(std::string_view flag, const std::string& list) {
    std::vector<StudyPart> parts;
    if (list.empty()) return parts;
    for (const std::string& part : parse_option(flag, list, split_list)) {
      parts.push_back(parse_option(
          flag, part, [](std::string_view text) { return kStudyPartNames.parse(text, "'{}' is no part of a study"); }));
    }
    return parts;
  }
  double default_limit() const { return settings_.is_quick ? 180 : settings_.device == "cpu" ? 900 : 1200; }

  // Returns the lock on the folder.
  Descriptor open(const StudyFolder& folder, const Json& configuration) const {
    if (!folder.manifest().exists()) {
      require(!is_shown_only_, "'{}' has no study", output_);
      folder.create(configuration);
      return folder.lock();
    }
    Descriptor lock = folder.lock();
    if (restarts_) {
      folder.restart(configuration);
      return lock;
    }
    const Json old = folder.manifest().configuration();
    if (!is_shown_only_) require_same(old, configuration);
    folder.make_folders();
    for (const std::string& file : folder.drop_incomplete_lines())
      print_error(fmt::format("the last line of '{}' was not complete; its row is measured again", file));
    return lock;
  }

  void require_same(const Json& old, const Json& now) const {
    std::vector<std::string> differences;
    // Of what studies of earlier versions lack.
    const Json defaults = {{"config_override", ""}, {"ranks", 1}, {"like", ""}, {"card", ""}};
    for (const auto& [key, value] : now.items()) {
      if (!old.contains(key) && defaults.value(key, Json()) == value) continue;
      if (old.value(key, Json()) != value)
        differences.push_back(
            fmt::format("{} {} instead of {}", key, dump_json(value), dump_json(old.value(key, Json()))));
    }
    require(differences.empty(),
            "'{}' has another study ({}); name another folder with --output, or give --restart to measure it again",
            output_, fmt::join(differences, ", "));
  }

  void measure(const StudyFolder& folder, const Json& configuration) const {
    try {
      const std::optional<std::vector<StudyPartPlan>> noted = folder.manifest().plan();
      if (settings_.is_plan()) {
        // The card is in the options.
      } else if (noted) {
        require_same_device(folder);
      } else {
        const std::vector<StudyPartPlan> devices = {devices_part(settings_)};
        StudyRunner(folder).run(devices);
      }
      // What runs is always made of the options of this command: the folder may have command lines of anyone.
      std::vector<StudyPartPlan> plan = plan_study(machine_of(folder), settings_);
      std::erase_if(plan, [&](const StudyPartPlan& part) { return !is_wanted(part.part); });
      require(!plan.empty(),
              "--only: none of these parts can be planned; leave --card and --plan-only out to measure them");
      if (noted) {
        require_same_plan(*noted, plan);
      } else {
        folder.manifest().write(configuration, plan);
        for (const StudyPartPlan& part : plan) {
          if (const std::vector<std::string> files = timeline_files(part); !files.empty())
            folder.manifest().note_files(files);
        }
      }
      StudyRunner(folder).run(plan);
    } catch (const Interrupted&) {
      throw Interrupted(
          fmt::format("interrupted; give the same command again to go on with the study in '{}'", output_));
    }
  }

  // Rows of two machines must not stand in one study.
  void require_same_device(const StudyFolder& folder) const {
    const std::string before = machine_of(folder).name;
    const std::string now =
        open_device(settings_.device, {.threads = settings_.threads, .memory_limit_bytes = std::nullopt})->name();
    require(before == now,
            "'{}' has a study of '{}', and {} is '{}' here; name another folder with --output, or give --restart to "
            "measure it again",
            output_, before, settings_.device, now);
  }

  StudyMachine machine_of(const StudyFolder& folder) const {
    StudyMachine machine = settings_.is_plan() ? study_machine(card_named(settings_.card))
                                               : study_machine(folder.rows(StudyPart::devices), settings_.device);
    if (settings_.memory_limit_bytes > 0)
      machine.memory_bytes = std::min(machine.memory_bytes, settings_.memory_limit_bytes);
    return machine;
  }
  bool is_wanted(StudyPart part) const {
    const auto has = [&](const std::vector<StudyPart>& parts) { return std::ranges::find(parts, part) != parts.end(); };
    return part == StudyPart::devices || ((parts_.empty() || has(parts_)) && !has(left_out_));
  }

  int show(const StudyFolder& folder) const {
    const tables::StudyDocument document = tables::read_study(folder.path());
    const std::vector<tables::StudyFile> files = tables::study_files(document);
    std::vector<std::string> names;
    for (const tables::StudyFile& file : files) names.push_back(file.name);
    folder.manifest().note_files(names);
    for (const tables::StudyFile& file : files) write_file(folder.file(file.name), file.text);
    print_output(printable_lines(tables::study_text(document, output_width())));
    return tables::failures_of(document).empty() ? kExitOk : kExitFailure;
  }

  StudySettings settings_;
  std::string card_, limit_, models_, only_, without_, output_ = "study";
  std::vector<StudyPart> parts_, left_out_;
  bool is_plan_only_ = false, restarts_ = false, is_shown_only_ = false;
};

}  // namespace

std::unique_ptr<Command> make_study() { return std::make_unique<StudyCommandLine>(); }

}  // namespace ridgepoint::cli
