// ridgepoint graph: the graph of a workload after any compiler pass, as text, as a drawing or as counts, and the time
// and the effect of each pass.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/graph_file.h"
#include "cli/options/output.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "core/files/file.h"
#include "core/text/nearest.h"
#include "core/text/text.h"
#include "inspect/graph/tables.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint::cli {
namespace {

class GraphCommand : public Command {
 public:
  std::string_view name() const override { return "graph"; }
  std::string_view summary() const override {
    return "show the graph after any compiler pass, and what each pass changed";
  }
  std::string_view examples() const override {
    return "ridgepoint graph --model small --mode step --dtype bf16\n"
           "ridgepoint graph --model tiny --mode forward_backward --after differentiate_outputs --text\n"
           "ridgepoint graph --workload attention --context 1024 --compile fuse --device cpu --stats\n"
           "ridgepoint graph --layers 1 --mode forward --compile fuse --dot --output layer.dot\n"
           "ridgepoint graph --model tiny --skip orient_matmuls,insert_copies\n"
           "ridgepoint graph --graph saved.txt --text --output compiled.txt";
  }
  std::string_view notes() const override { return notes_; }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Graph");
    group.add("--graph", graph_file_, "FILE",
              "read a graph in the text form that --text prints, instead of --workload");
    group.add("--after", after_, "PASS", "stop after this pass [all passes run]", pass_names(), Takes::one);
    group.add("--skip", skip_, "PASSES", "leave these passes out", pass_names(), Takes::list);
    group.add_flag("--text", text_, "print the graph instead of the table of passes");
    group.add_flag("--dot", dot_,
                   fmt::format("draw the graph for Graphviz (dot -Tsvg); a graph of more than {} nodes has one box for "
                               "each module and phase",
                               tables::kMostDrawnNodes));
    group.add_flag("--stats", stats_,
                   "also count nodes, launches, operations and bytes by op and phase, and list what fused nodes "
                   "replace; files have these rows only");
    run_options_.add_to(app);
    output_options_.add_to(app);
  }

  int run() override {
    check_options();
    const Graph graph = compiled(run_options_.single_draft());
    if (text_ || dot_) {
      write_text(text_ ? print_graph(graph) : tables::dot_text(graph));
    } else {
      write(output_options_, [&](Format format, std::size_t) { return page(graph, format); });
    }
    return kExitOk;
  }

 private:
  void check_options() const {
    require((text_ ? 1 : 0) + (dot_ ? 1 : 0) + (stats_ ? 1 : 0) <= 1,
            "--text, --dot and --stats print different things; give one");
    require(!text_ || output_options_.format.empty(), "--text has its own format; leave --format out");
    require(!dot_ || output_options_.format.empty(), "--dot has its own format; leave --format out");
    if (!graph_file_.empty()) require_no_workload();
  }

  // A graph of a file has the settings of workloads in itself.
  void require_no_workload() const {
    std::vector<std::string> settings = {"workload"};
    for (const std::string_view name : workload_names())
      std::ranges::copy(workload_kind(name).settings, std::back_inserter(settings));
    for (const std::string& setting : settings)
      require(!run_options_.given("--" + setting), "--graph replaces the workload; leave --{} out", setting);
  }

  Graph source(const RunDraft& draft) const {
    if (!graph_file_.empty()) return read_graph_file(graph_file_);
    return workload_of(draft)->build(stop_if_interrupted);
  }

  static void check_pass(std::string_view flag, const std::string& pass) {
    const std::vector<std::string_view> names = pass_names();
    if (std::ranges::find(names, pass) != names.end()) return;
    const std::string near = hint(pass, names);
    refuse("{}: no pass is called '{}'{}", flag, pass, near.empty() ? "; 'ridgepoint graph --help' lists them" : near);
  }

  Graph compiled(const RunDraft& draft) {
    CompileOptions options = draft.config.compile;
    require(options.checkpoint != Checkpoint::automatic,
            "--checkpoint auto depends on the memory of a run, which a graph lacks; give a policy, such as block");
    require(!draft.config.choose_sharding && !draft.config.choose_bucket,
            "--shard auto and bucket=auto depend on the memory and the time of a run, which a graph lacks; plan with "
            "them, and give what it chose");
    options.stop_point = stop_if_interrupted;
    if (!graph_file_.empty() && !run_options_.given("--mode")) options.mode = Mode::forward;
    if (!skip_.empty()) options.skip = parse_option("--skip", skip_, split_list);
    options.until = after_;
    for (const std::string& pass : options.skip) check_pass("--skip", pass);
    if (!after_.empty()) check_pass("--after", after_);
    Graph forward = source(draft);
    tables::NodeCounts before = tables::count_nodes(forward);
    options.after_pass = [&](const PassResult& result, const Graph& graph) {
      tables::NodeCounts after = tables::count_nodes(graph);
      passes_.push_back({result, std::exchange(before, after), after});
    };
    const std::shared_ptr<Device> device = open_device(draft.config.device, draft.config.device_options);
    return compile(std::move(forward), *device, options);
  }

  void write_text(const std::string& text) const {
    if (output_options_.path.empty()) {
      print_output(printable_lines(text));
    } else {
      write_file(output_options_.path, text);
    }
  }

  tables::Page page(const Graph& graph, Format format) const {
    tables::Page page;
    if (!stats_ || is_for_people(format)) page.tables.push_back(tables::pass_table(graph.name, passes_));
    if (stats_) page.tables.push_back(tables::op_table(graph, format));
    return page;
  }

  const std::string notes_ =
      fmt::format("The passes run in this order: {}. No kernel runs.", fmt::join(pass_names(), ", "));
  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context batch dtype "
      "compile attention checkpoint segment loss-chunk mode optimizer momentum weight-decay no-decay clip-norm z-loss "
      "master-weights accumulate parallel shard";
  RunOptions run_options_{kSettings};
  OutputOptions output_options_;
  std::string graph_file_, after_, skip_;
  bool text_ = false, dot_ = false, stats_ = false;
  std::vector<tables::PassEffect> passes_;
};

}  // namespace

std::unique_ptr<Command> make_graph() { return std::make_unique<GraphCommand>(); }

}  // namespace ridgepoint::cli
