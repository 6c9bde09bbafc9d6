// ridgepoint profile: where the time of a step goes, kernel by kernel, and what bounds it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/profile_tables.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/run_progress.h"
#include "cli/sweep.h"
#include "core/nearest.h"
#include "interchange/trace_events.h"
#include "measure/profile.h"
#include "measure/profile_json.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

constexpr std::int64_t kMostProfiledSteps = 1000;

Breakdown breakdown_from_name(std::string_view text) {
  std::vector<std::string_view> names;
  for (const Breakdown breakdown : kBreakdowns) {
    if (name(breakdown) == text) return breakdown;
    names.push_back(name(breakdown));
  }
  throw Error(fmt::format("--by: '{}' is unknown; did you mean '{}'? available: {}", text, nearest(text, names),
                          fmt::join(names, ", ")),
              ErrorKind::usage);
}

void require_range(std::string_view flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(fmt::format("{}: {} is out of range; it may be {} to {}", flag, value, least, most), ErrorKind::usage);
}

class ProfileCommand : public Command {
 public:
  std::string_view name() const override { return "profile"; }
  std::string_view summary() const override { return "where the time goes: kernels, modules, idle time, roofline"; }
  std::string_view examples() const override {
    return "ridgepoint profile --model small --mode step\n"
           "ridgepoint profile --model small --mode forward --by scope --depth 4\n"
           "ridgepoint profile --model small --compare forward,step\n"
           "ridgepoint profile --model large --mode step --trace large.json\n"
           "ridgepoint profile --model tiny --by launch --format csv --output launches.csv";
  }
  std::string_view notes() const override {
    return "The steps are timed first, as bench times them, then --profiled-steps more run under the device's profiler "
           "(the executor's clock on a cpu, CUPTI on a card). Where it cannot record, the timing is reported with the "
           "reason, and the exit code is 1. A trace file opens in Perfetto and chrome://tracing. --format csv writes "
           "the "
           "breakdown that --by names, kernels unless told; json and jsonl hold all of them.";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    constexpr const char* kGroup = "Profile";
    app.add_option("--profiled-steps", profiled_steps_, "steps under the profiler, after the timed ones [3]")
        ->type_name("N")
        ->group(kGroup);
    app.add_option("--by", by_, "one breakdown instead of all views: kernel, class, scope, launch")
        ->type_name("NAME")
        ->group(kGroup);
    app.add_option("--depth", view_.detail.depth, "levels of modules shown by scope; ops are the innermost [3]")
        ->type_name("N")
        ->group(kGroup);
    app.add_flag_callback(
           "--each-layer", [this] { view_.detail.layers = Layers::apart; }, "layers apart instead of added up")
        ->group(kGroup);
    app.add_option("--top", view_.top, "kernels and places to win time shown, 0 for all [15]")
        ->type_name("N")
        ->group(kGroup);
    app.add_option("--compare", compare_, "two modes or more: how shares move between them")
        ->type_name("MODES")
        ->group(kGroup);
    app.add_option("--trace", trace_, "write the profiled steps as a trace file")->type_name("FILE")->group(kGroup);
    output_options_.add_to(app);
  }

  int run() override {
    const std::vector<StepConfig> configs = checked_configs();
    if (!by_.empty()) view_.only = breakdown_from_name(by_);
    view_.detail.launches = view_.only == Breakdown::launch;
    RowWriter writer(output_options_, {[this](Format format, std::size_t width) { return render(format, width); },
                                       [this](Format format) { return render_newest(format); }});
    check_trace();
    const bool complete = run_all(configs, writer);
    writer.finish();
    for (const Profile& profile : profiles_) say_problems(profile);
    if (!complete) {
      throw Interrupted(fmt::format("interrupted; {} of {} profiles finished", profiles_.size(), configs.size()));
    }
    return exit_code();
  }

 private:
  std::vector<StepConfig> checked_configs() const {
    require_range("--profiled-steps", profiled_steps_, 1, kMostProfiledSteps);
    require_range("--depth", view_.detail.depth, 1, 100);
    std::vector<StepConfig> configs = run_options_.expand();
    if (!compare_.empty()) configs = one_a_mode(std::move(configs));
    if (!trace_.empty() && configs.size() > 1) {
      throw Error(fmt::format("--trace: a trace file holds one profile, and the options ask for {}", configs.size()),
                  ErrorKind::usage);
    }
    return configs;
  }

  std::vector<StepConfig> one_a_mode(std::vector<StepConfig> configs) const {
    if (run_options_.given("--mode")) throw Error("--compare names the modes; leave --mode out", ErrorKind::usage);
    if (!by_.empty()) throw Error("--compare is by class; leave --by out", ErrorKind::usage);
    const std::vector<std::string> modes = split_list(compare_);
    if (modes.size() < 2) {
      throw Error(fmt::format("--compare: '{}' is one mode; give two or more: forward,step", compare_),
                  ErrorKind::usage);
    }
    if (configs.size() != 1) throw Error("--compare takes one configuration; give one value each", ErrorKind::usage);
    std::vector<StepConfig> result;
    for (const std::string& mode : modes) {
      result.push_back(configs.front());
      try {
        result.back().mode = mode_from_name(mode);
      } catch (const Error& error) {
        throw Error(fmt::format("--compare: {}", error.what()), ErrorKind::usage);
      }
    }
    return result;
  }

  // Found out before the run, but no reason not to run: the tables are wanted too.
  void check_trace() {
    if (trace_.empty()) return;
    try {
      check_writable(trace_);
    } catch (const Error& error) {
      trace_problem_ = error.what();
    }
  }

  // False when Ctrl-C stopped it.
  bool run_all(const std::vector<StepConfig>& configs, RowWriter& writer) {
    std::vector<double> costs;
    for (const StepConfig& config : configs) costs.push_back(estimated_cost(config, profiled_steps_));
    Progress progress(std::move(costs));
    CeilingCache ceilings;
    for (std::size_t row = 0; row < configs.size(); ++row) {
      const StepConfig& config = configs[row];
      progress.start_row(row, describe_row(config));
      std::optional<Profile> profile = measure_profile(config, profiled_steps_, ceilings, [&](const StepProgress& at) {
        progress.update(stage_text(at), share_done(config, at, profiled_steps_));
        return !interrupted();
      });
      if (!profile) return false;
      progress.clear();
      profiles_.push_back(std::move(*profile));
      write_trace_file();
      writer.row_added();
      if (interrupted()) return row + 1 == configs.size();
    }
    return true;
  }

  void write_trace_file() {
    if (trace_.empty() || !trace_problem_.empty() || !profiles_.back().has_kernels()) return;
    try {
      write_trace(trace_, profiles_.back());
    } catch (const Error& error) {
      trace_problem_ = error.what();
    }
  }

  void say_problems(const Profile& profile) const {
    if (!profile.problem.empty()) print_error(fmt::format("no kernels were recorded: {}", profile.problem));
    if (profile.dropped_records > 0) {
      print_error(
          fmt::format("the profiler dropped {} records; times and counts are too low", profile.dropped_records));
    }
    if (!trace_problem_.empty()) print_error(fmt::format("no trace was written: {}", trace_problem_));
  }

  std::string render(Format format, std::size_t width) const {
    std::string text;
    if (format == Format::table || format == Format::markdown) return render_text(format == Format::markdown, width);
    if (format == Format::csv) text = csv_heading(csv_breakdown());
    if (format == Format::json) text = "[";
    for (std::size_t i = 0; i < profiles_.size(); ++i) {
      if (format == Format::csv) {
        text += csv_rows(profiles_[i], csv_breakdown(), view_.detail);
      } else {
        if (format == Format::json) text += i == 0 ? "\n" : ",\n";
        text += to_json(profiles_[i], view_.detail) + (format == Format::jsonl ? "\n" : "");
      }
    }
    return format == Format::json ? text + "\n]\n" : text;
  }

  std::string render_text(bool markdown, std::size_t width) const {
    ProfileViewOptions options = view_;
    options.markdown = markdown;
    options.width = width;
    if (!compare_.empty()) return comparison_as_text(profiles_, options);
    std::string text;
    for (const Profile& profile : profiles_) text += (text.empty() ? "" : "\n") + profile_as_text(profile, options);
    return text;
  }

  std::string render_newest(Format format) const {
    if (format == Format::jsonl) return to_json(profiles_.back(), view_.detail) + '\n';
    const std::string heading = profiles_.size() == 1 ? csv_heading(csv_breakdown()) : "";
    return heading + csv_rows(profiles_.back(), csv_breakdown(), view_.detail);
  }

  Breakdown csv_breakdown() const { return view_.only.value_or(Breakdown::kernel); }

  // Running out of memory is an answer; a profile without kernels is none.
  int exit_code() const {
    const bool failed = std::ranges::any_of(profiles_, [](const Profile& profile) {
      return !profile.problem.empty() || profile.run.status == RunStatus::error ||
             profile.run.status == RunStatus::unsupported;
    });
    return failed || !trace_problem_.empty() ? kExitFailure : kExitOk;
  }

  RunOptions run_options_;
  OutputOptions output_options_;
  ProfileViewOptions view_;
  std::int64_t profiled_steps_ = 3;
  std::string by_, compare_, trace_, trace_problem_;
  std::vector<Profile> profiles_;
};

}  // namespace

std::unique_ptr<Command> make_profile() { return std::make_unique<ProfileCommand>(); }

}  // namespace ridgepoint::cli
