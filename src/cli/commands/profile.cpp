// ridgepoint profile: the time of each kernel and module of a step, idle time, and a roofline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <utility>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/options/weights_file.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/run_rows.h"
#include "core/files/file.h"
#include "inspect/profile/pages/page.h"
#include "inspect/profile/profile.h"
#include "inspect/profile/trace_events.h"
#include "inspect/profile/views.h"
#include "ir/scope.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

using tables::Breakdown;

constexpr std::int64_t kMostProfiledSteps = 1000;

void require_range(std::string_view flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  require(value >= least && value <= most, "{}: {} is out of range; the range is {} to {}", flag, value, least, most);
}

class ProfileCommand : public Command {
 public:
  std::string_view name() const override { return "profile"; }
  std::string_view summary() const override { return "show where time goes: kernels, modules, idle time, roofline"; }
  std::string_view examples() const override {
    return "ridgepoint profile --model small --mode step\n"
           "ridgepoint profile --model small --mode forward --by scope --depth 4\n"
           "ridgepoint profile --model small --phase forward --scope 'layers.*.attn'\n"
           "ridgepoint profile --model small --compare forward,step\n"
           "ridgepoint profile --model large --mode step --trace large.json\n"
           "ridgepoint profile --model tiny --parallel data=2 --ranks 2 --trace ranks.json\n"
           "ridgepoint profile --model tiny --by launch --format csv --output launches.csv";
  }
  std::string_view notes() const override {
    return "The command times the steps as bench does, then runs --profiled-steps more under a profiler (CUPTI on a "
           "GPU, the executor's clock on a CPU). If the profiler cannot record, the timing and the reason are printed, "
           "and the exit code is 1. --format csv writes one breakdown: that of --by (default: kernel), or the classes "
           "of each mode with --compare; json and jsonl have all breakdowns. With --phase or --scope, shares of kernel "
           "time refer to the selected kernels. Of several ranks, rank 0 is shown, a table has how much of each rank's "
           "collectives is exposed, and the trace has the lanes of all ranks.";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    rank_options_.add_to(app);
    run_options_.add_skip_to(app);
    RunOptions::add_run_anyway(app, run_anyway_);
    const OptionGroup group(app, "Profile");
    group.add("--profiled-steps", profiled_steps_, "N", "steps that run under the profiler, after the timed ones [3]");
    group.add("--by", by_, "NAME", "print only this breakdown: kernel, class, scope (modules) or launch",
              {"kernel", "class", "scope", "launch"}, Takes::one);
    group.add("--phase", phases_, "NAMES",
              "select kernels by phase: forward, loss, recompute, backward, zeroing, optimizer",
              {"forward", "loss", "recompute", "backward", "zeroing", "optimizer"}, Takes::list);
    group.add("--scope", scopes_, "GLOBS",
              "select kernels by module; * matches any characters except a dot: 'layers.*.attn'");
    depth_option_ = group.add("--depth", view_.detail.depth, "N", "levels of modules in the breakdown by scope [3]");
    app.add_flag_callback(
           "--each-layer", [this] { view_.detail.layers = Layers::apart; },
           "show each layer instead of the sum of all layers")
        ->group("Profile");
    top_option_ =
        group.add("--top", top_, "N", "rows in the tables of kernels and of recoverable time; 0 shows all [15]");
    group.add("--compare", compare_, "MODES", "compare two or more modes by class: forward,step", names_of(kAllModes),
              Takes::list);
    group.add("--trace", trace_, "FILE",
              "write a trace of the profiled steps for Perfetto or chrome://tracing; with {rank} in its name, as in "
              "t/{rank}.json, each rank writes a file of its own, as HolisticTraceAnalysis reads them");
    add_option_of(app, "weights", weights_);
    output_options_.add_to(app);
  }

  int run() override {
    if (!by_.empty()) view_.only = parse_option("--by", by_, tables::breakdown_from_name);
    check_views();
    const std::vector<RunConfig> configs = checked_configs();
    view_.detail.launches = view_.only == Breakdown::launch;
    view_.top = static_cast<std::size_t>(top_);
    view_.compares = !compare_.empty();
    PageWriter writer(
        output_options_,
        [this](Format format, std::size_t first) {
          return tables::profile_page(std::span(profiles_).subspan(first), view_, format);
        },
        PageWriter::Items::independent);
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
    require(top_ >= 0, "--top: {} is too small; the least is 0", top_);
    take_model_beside(weights_, run_options_);
    std::vector<RunConfig> configs = run_options_.expand();
    for (RunConfig& config : configs) {
      config.run_anyway = run_anyway_;
      config.profiled_steps = profiled_steps_;
    }
    if (!compare_.empty()) configs = one_a_mode(std::move(configs));
    if (!trace_.empty() && configs.size() > 1) {
      refuse("--trace: a trace file holds one configuration; the options give {}", configs.size());
    }
    output_options_.check();
    rank_options_.place(configs);
    if (!weights_.empty()) use_weights(weights_, configs);
    filter_ = read_filter(configs);
    return configs;
  }

  // Refuses options that the chosen tables would ignore.
  void check_views() const {
    const Format format = output_options_.resolved_format();
    const bool is_json = format == Format::json || format == Format::jsonl;
    const auto shows = [&](Breakdown breakdown) {
      if (is_json) return true;
      if (!compare_.empty()) return false;
      return view_.only ? *view_.only == breakdown : format != Format::csv || breakdown == Breakdown::kernel;
    };
    require(by_.empty() || compare_.empty(), "--compare always compares classes; leave --by out");
    require(!is_json || !view_.only || view_.only == Breakdown::launch,
            "json and jsonl have every breakdown; leave --by out (only --by launch adds one)");
    require(shows(Breakdown::scope) || depth_option_->count() == 0,
            "--depth applies to the breakdown by module; leave it out, or use --by scope");
    require(shows(Breakdown::scope) || view_.detail.layers == Layers::added_up,
            "--each-layer applies to the breakdown by module; leave it out, or use --by scope");
    require((is_for_people(format) && compare_.empty() && shows(Breakdown::kernel)) || top_option_->count() == 0,
            "--top applies to the printed tables of kernels and of recoverable time; leave it out");
  }

  // Throws Error (usage) for an unknown phase, and for a scope that matches no module of a model.
  KernelFilter read_filter(const std::vector<RunConfig>& configs) const {
    KernelFilter filter;
    if (!phases_.empty()) {
      for (const std::string& text : parse_option("--phase", phases_, split_list)) {
        filter.phases.push_back(parse_option("--phase", text, profile_phase_from_name));
      }
    }
    if (scopes_.empty()) return filter;
    filter.scopes = parse_option("--scope", scopes_, split_list);
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
    refuse("--scope: no module matches '{}'; the outermost modules are {}", pattern, fmt::join(modules, ", "));
  }

  std::vector<RunConfig> one_a_mode(std::vector<RunConfig> configs) const {
    require(!run_options_.given("--mode"), "--compare gives the modes; leave --mode out");
    const std::vector<std::string> modes = parse_option("--compare", compare_, split_list);
    require(modes.size() >= 2, "--compare: '{}' is one mode; give two or more: forward,step", compare_);
    require(configs.size() == 1, "--compare takes one configuration; give one value for every other option");
    std::vector<RunConfig> result;
    for (const std::string& mode : modes) {
      result.push_back(configs.front());
      result.back().compile.mode =
          parse_option("--compare", usual_value(setting_of_option("mode"), mode), mode_from_name);
    }
    return result;
  }

  // An unwritable trace file is reported at the end: the tables are printed all the same.
  void check_trace() {
    const std::string own = trace_of_rank();
    if (own.empty() || (own == trace_ && !is_first_rank())) return;
    try {
      check_writable(own);
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

  // The file that this rank writes: of all ranks, or of its own.
  std::string trace_of_rank() const {
    constexpr std::string_view kPlace = "{rank}";
    const std::string rank = std::to_string(joined_ranks() != nullptr ? joined_ranks()->rank() : 0);
    std::string path = trace_;
    if (const std::size_t at = path.find(kPlace); at != std::string::npos) path.replace(at, kPlace.size(), rank);
    return path;
  }

  void write_trace_file() {
    if (trace_.empty() || !profiles_.back().has_kernels()) return;
    const std::string own = trace_of_rank();
    const TraceFiles files = own == trace_ ? TraceFiles::of_all_ranks : TraceFiles::of_each_rank;
    const std::shared_ptr<ProcessGroup>& group = joined_ranks();
    const TraceOfRanks ranks =
        group != nullptr ? gather_trace_events(profiles_.back(), *group, files) : trace_of_one(profiles_.back());
    if ((is_first_rank() || files == TraceFiles::of_each_rank) && trace_problem_.empty()) {
      try {
        write_trace(own, profiles_.back(), ranks);
      } catch (const Error& error) {
        trace_problem_ = error.what();
      }
    }
    if (group == nullptr) return;
    for (const std::string& problem : group->all_gather(trace_problem_, "the problems of traces"))
      if (trace_problem_.empty()) trace_problem_ = problem;
  }

  void say_problems(const Profile& profile) const {
    if (!profile.problem.empty()) print_error(fmt::format("no kernels were recorded: {}", profile.problem));
    if (profile.dropped_records > 0) {
      print_error(
          fmt::format("the profiler dropped {} records; times and counts are too low", profile.dropped_records));
    }
    if (!trace_problem_.empty()) print_error(fmt::format("no trace was written: {}", trace_problem_));
  }

  // Running out of memory is a result of a sweep; a profile without kernels is a failure.
  int exit_code() const {
    const bool failed = std::ranges::any_of(profiles_, [](const Profile& profile) {
      return !profile.problem.empty() || profile.run.status == RunStatus::error ||
             profile.run.status == RunStatus::unsupported;
    });
    if (failed || !trace_problem_.empty()) return kExitFailure;
    const auto is_ok = [](const Profile& profile) { return profile.run.status == RunStatus::ok; };
    return std::ranges::any_of(profiles_, is_ok) ? kExitOk : kExitNothingFits;
  }

  RunOptions run_options_;
  RankOptions rank_options_;
  OutputOptions output_options_;
  tables::ProfileViewOptions view_;
  std::int64_t profiled_steps_ = 3;
  bool run_anyway_ = false;
  std::string by_, compare_, phases_, scopes_, weights_, trace_, trace_problem_;
  KernelFilter filter_;
  CLI::Option* depth_option_ = nullptr;
  std::int64_t top_ = 15;
  CLI::Option* top_option_ = nullptr;
  std::vector<Profile> profiles_;
};

}  // namespace

std::unique_ptr<Command> make_profile() { return std::make_unique<ProfileCommand>(); }

}  // namespace ridgepoint::cli
