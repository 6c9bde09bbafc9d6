// ridgepoint profile: where the time of a step goes, kernel by kernel, and what bounds it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <utility>

#include "cli/commands/command.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/options/weights_file.h"
#include "cli/terminal/output.h"
#include "cli/terminal/run_rows.h"
#include "interchange/trace_events.h"
#include "ir/scope.h"
#include "measure/profile/filter.h"
#include "measure/profile/profile.h"
#include "ridgepoint/error.h"
#include "views/profile/page.h"

namespace ridgepoint::cli {
namespace {

using views::Breakdown;

constexpr std::int64_t kMostProfiledSteps = 1000;

// What `parse` says of the value of `flag` begins with that.
template <typename Parse>
auto parse_value(std::string_view flag, std::string_view text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()), ErrorKind::usage);
  }
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
           "ridgepoint profile --model small --phase forward --scope 'layers.*.attn'\n"
           "ridgepoint profile --model small --compare forward,step\n"
           "ridgepoint profile --model large --mode step --trace large.json\n"
           "ridgepoint profile --model tiny --by launch --format csv --output launches.csv";
  }
  std::string_view notes() const override {
    return "The steps are timed first, as bench times them, then --profiled-steps more run under the device's profiler "
           "(the executor's clock on a cpu, CUPTI on a card). Where it cannot record, the timing is reported with the "
           "reason, and the exit code is 1. A trace file opens in Perfetto and chrome://tracing. --format csv writes "
           "the breakdown that --by names, kernels unless told, or with --compare the classes of each mode; json and "
           "jsonl hold all of them. With --phase and --scope, shares are of the kernels chosen.";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    RunOptions::add_run_anyway(app, run_anyway_);
    constexpr const char* kGroup = "Profile";
    app.add_option("--profiled-steps", profiled_steps_, "steps under the profiler, after the timed ones [3]")
        ->type_name("N")
        ->group(kGroup);
    app.add_option("--by", by_, "one breakdown instead of all views: kernel, class, scope, launch")
        ->type_name("NAME")
        ->group(kGroup);
    app.add_option("--phase", phases_, "kernels of these phases alone: forward, loss, backward, zeroing, optimizer")
        ->type_name("NAMES")
        ->group(kGroup);
    app.add_option("--scope", scopes_,
                   "kernels of these modules alone; * stands for any characters but a dot: 'layers.*.attn'")
        ->type_name("GLOBS")
        ->group(kGroup);
    depth_option_ =
        app.add_option("--depth", view_.detail.depth, "levels of modules shown by scope; ops are the innermost [3]")
            ->type_name("N")
            ->group(kGroup);
    app.add_flag_callback(
           "--each-layer", [this] { view_.detail.layers = Layers::apart; }, "layers apart instead of added up")
        ->group(kGroup);
    top_option_ = app.add_option("--top", view_.top, "kernels and places to win time shown, 0 for all [15]")
                      ->type_name("N")
                      ->group(kGroup);
    app.add_option("--compare", compare_, "two modes or more: how shares move between them")
        ->type_name("MODES")
        ->group(kGroup);
    app.add_option("--trace", trace_, "write the profiled steps as a trace file")->type_name("FILE")->group(kGroup);
    app.add_option("--weights", weights_, "parameters from a safetensors file [made from --seed]")
        ->type_name("FILE")
        ->group("Work");
    output_options_.add_to(app);
  }

  int run() override {
    if (!by_.empty()) view_.only = parse_value("--by", by_, views::breakdown_from_name);
    check_views();
    const std::vector<RunConfig> configs = checked_configs();
    view_.detail.launches = view_.only == Breakdown::launch;
    view_.compares = !compare_.empty();
    PageWriter writer(
        output_options_,
        [this](Format format, std::size_t first) {
          return views::profile_page(std::span(profiles_).subspan(first), view_, format);
        },
        PageWriter::Items::stand_apart);
    check_trace();
    run_all(configs, writer);
    writer.finish();
    for (const Profile& profile : profiles_) say_problems(profile);
    require_complete(profiles_.size(), configs.size(), "", "profiles");
    return exit_code();
  }

 private:
  std::vector<RunConfig> checked_configs() {
    require_range("--profiled-steps", profiled_steps_, 1, kMostProfiledSteps);
    require_range("--depth", view_.detail.depth, 1, 100);
    std::vector<RunConfig> configs = run_options_.expand();
    for (RunConfig& config : configs) {
      config.run_anyway = run_anyway_;
      config.profiled_steps = profiled_steps_;
    }
    if (!compare_.empty()) configs = one_a_mode(std::move(configs));
    if (!trace_.empty() && configs.size() > 1) {
      throw Error(fmt::format("--trace: a trace file holds one profile, and the options ask for {}", configs.size()),
                  ErrorKind::usage);
    }
    if (!weights_.empty()) use_weights(weights_, configs);
    filter_ = read_filter(configs);
    return configs;
  }

  // An option that would change nothing of what is asked for is a misunderstanding.
  void check_views() const {
    const auto require = [](bool holds, const char* message) {
      if (!holds) throw Error(message, ErrorKind::usage);
    };
    const Format format = output_options_.resolved_format();
    const bool is_json = format == Format::json || format == Format::jsonl;
    const auto shows = [&](Breakdown breakdown) {
      if (is_json) return true;
      if (!compare_.empty()) return false;
      return view_.only ? *view_.only == breakdown : format != Format::csv || breakdown == Breakdown::kernel;
    };
    require(by_.empty() || compare_.empty(), "--compare is by class; leave --by out");
    require(!is_json || !view_.only || view_.only == Breakdown::launch,
            "json and jsonl hold every breakdown; leave --by out (--by launch adds every launch)");
    require(shows(Breakdown::scope) || depth_option_->count() == 0,
            "--depth is of the breakdown by module; leave it out, or ask for --by scope");
    require(shows(Breakdown::scope) || view_.detail.layers == Layers::added_up,
            "--each-layer is of the breakdown by module; leave it out, or ask for --by scope");
    require((is_for_people(format) && compare_.empty() && shows(Breakdown::kernel)) || top_option_->count() == 0,
            "--top is of the table of kernels; files and other tables have all their rows: leave it out");
  }

  // The names are checked before anything runs: against the phases there are, and against the models' modules.
  KernelFilter read_filter(const std::vector<RunConfig>& configs) const {
    KernelFilter filter;
    if (!phases_.empty()) {
      for (const std::string& text : split_list("--phase", phases_)) {
        filter.phases.push_back(parse_value("--phase", text, profile_phase_from_name));
      }
    }
    if (scopes_.empty()) return filter;
    filter.scopes = split_list("--scope", scopes_);
    for (const std::string& pattern : filter.scopes) require_module(pattern, configs);
    return filter;
  }

  static void require_module(const std::string& pattern, const std::vector<RunConfig>& configs) {
    std::vector<std::string> modules;  // the outermost
    for (const RunConfig& config : configs) {
      const Graph graph = training_graph(config.workload->build(), {.mode = config.compile.mode});
      for (const NodeId id : graph.order()) {
        const std::string& scope = graph.scope_name(graph.node(id));
        if (matches_scope(pattern, scope)) return;
        const std::vector<std::string> levels = scope_levels(scope, Layers::added_up);
        if (levels.empty() || std::ranges::find(modules, levels.front()) != modules.end()) continue;
        modules.push_back(levels.front());
      }
    }
    throw Error(
        fmt::format("--scope: no module is called '{}'; outermost there are {}", pattern, fmt::join(modules, ", ")),
        ErrorKind::usage);
  }

  std::vector<RunConfig> one_a_mode(std::vector<RunConfig> configs) const {
    if (run_options_.given("--mode")) throw Error("--compare names the modes; leave --mode out", ErrorKind::usage);
    const std::vector<std::string> modes = split_list("--compare", compare_);
    if (modes.size() < 2) {
      throw Error(fmt::format("--compare: '{}' is one mode; give two or more: forward,step", compare_),
                  ErrorKind::usage);
    }
    if (configs.size() != 1) throw Error("--compare takes one configuration; give one value each", ErrorKind::usage);
    std::vector<RunConfig> result;
    for (const std::string& mode : modes) {
      result.push_back(configs.front());
      result.back().compile.mode = parse_value("--compare", mode, mode_from_name);
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

  void run_all(const std::vector<RunConfig>& configs, PageWriter& writer) {
    std::vector<RowOutline> rows;
    for (const RunConfig& config : configs) rows.push_back(outline(config));
    CeilingCache ceilings;
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      std::optional<Profile> profile = measure_profile(configs[row], ceilings, shown_on(progress));
      if (!profile) return false;
      progress.clear();
      profiles_.push_back(std::move(*profile));
      write_trace_file();
      select_kernels(profiles_.back(), filter_);
      writer.item_added();
      return true;
    });
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
  views::ProfileViewOptions view_;
  std::int64_t profiled_steps_ = 3;
  bool run_anyway_ = false;
  std::string by_, compare_, phases_, scopes_, weights_, trace_, trace_problem_;
  KernelFilter filter_;
  CLI::Option* depth_option_ = nullptr;
  CLI::Option* top_option_ = nullptr;
  std::vector<Profile> profiles_;
};

}  // namespace

std::unique_ptr<Command> make_profile() { return std::make_unique<ProfileCommand>(); }

}  // namespace ridgepoint::cli
