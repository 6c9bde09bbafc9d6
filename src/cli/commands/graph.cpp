// ridgepoint graph: the graph of a workload after any compiler pass, and the time and the effect of each pass.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/command.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "core/files/file.h"
#include "core/nearest.h"
#include "models/attention_problem.h"
#include "models/toy_model.h"
#include "models/transformer.h"
#include "ridgepoint/program.h"

namespace ridgepoint::cli {
namespace {

constexpr std::array<std::string_view, 3> kWorkloads = {"model", "attention", "toy"};

struct PassRow {
  PassResult result;
  std::int64_t nodes = 0;
  std::int64_t launches = 0;  // nodes that run a kernel
};

std::int64_t count_launches(const Graph& graph) {
  return std::ranges::count_if(graph.order(), [&](NodeId id) { return launches(graph.node(id).op); });
}

class GraphCommand : public Command {
 public:
  std::string_view name() const override { return "graph"; }
  std::string_view summary() const override {
    return "show the graph after any compiler pass, and what each pass changed";
  }
  std::string_view examples() const override {
    return "ridgepoint graph --model small --mode step --dtype bf16\n"
           "ridgepoint graph --model tiny --mode backward --after differentiate_outputs --text\n"
           "ridgepoint graph --workload attention --context 1024 --compile fuse --device cpu\n"
           "ridgepoint graph --model tiny --skip orient_matmuls,insert_copies\n"
           "ridgepoint graph --graph saved.txt --text --output compiled.txt";
  }
  std::string_view notes() const override { return notes_; }

  void add_options(CLI::App& app) override {
    constexpr const char* kGroup = "Graph";
    app.add_option("--workload", workload_, "build the graph of model, attention (one call) or toy [model]")
        ->type_name("NAME")
        ->group(kGroup);
    app.add_option("--graph", graph_file_, "read a graph in the text form that --text prints, instead of --workload")
        ->type_name("FILE")
        ->group(kGroup);
    app.add_option("--after", after_, "stop after this pass [all passes run]")->type_name("PASS")->group(kGroup);
    app.add_option("--skip", skip_, "leave these passes out")->type_name("PASSES")->group(kGroup);
    app.add_flag("--text", text_, "print the graph instead of the tables of passes and ops")->group(kGroup);
    run_options_.add_to(app);
    output_options_.add_to(app);
  }

  int run() override {
    check_options();
    const Graph graph = compiled(run_options_.single_draft());
    if (text_) {
      write_text(print_graph(graph));
    } else {
      write(output_options_, [&](Format format, std::size_t) { return page(graph, format); });
    }
    return kExitOk;
  }

 private:
  void check_options() const {
    require(std::ranges::find(kWorkloads, workload_) != kWorkloads.end(),
            fmt::format("--workload: '{}' is unknown{}", workload_, hint(workload_, kWorkloads)));
    require(!text_ || output_options_.format.empty(), "--text has its own format; leave --format out");
    require(graph_file_.empty() || workload_ == "model", "--graph replaces the workload; leave --workload out");
  }

  Graph source(const RunDraft& draft) const {
    if (!graph_file_.empty()) return parse_graph(read_file(graph_file_, kMaxGraphBytes));
    if (workload_ == "toy") return ToyModel().build();
    if (workload_ == "attention") return AttentionCall(attention_problem(draft)).build();
    return Transformer(model_of(draft), draft.batch).build(stop_if_interrupted);
  }

  // One call of attention with the heads and the width of the model.
  static AttentionProblem attention_problem(const RunDraft& draft) {
    const TransformerConfig model = model_of(draft);
    return {.batch = draft.batch,
            .heads = model.heads,
            .d_model = model.d_model,
            .queries = model.context,
            .keys = model.context,
            .causal = true,
            .variant = model.attention,
            .precision = draft.config.compile.precision};
  }

  Graph compiled(const RunDraft& draft) {
    CompileOptions options = draft.config.compile;
    options.stop_point = stop_if_interrupted;
    if (!graph_file_.empty() && !run_options_.given("--mode")) options.mode = Mode::forward;
    if (!skip_.empty()) options.skip = parse_option("--skip", skip_, split_list);
    options.until = after_;
    options.after_pass = [&](const PassResult& result, const Graph& graph) {
      passes_.push_back({result, static_cast<std::int64_t>(graph.order().size()), count_launches(graph)});
    };
    const std::shared_ptr<Device> device = open_device(draft.config.device, draft.config.device_options);
    return compile(source(draft), *device, options);
  }

  void write_text(const std::string& text) const {
    if (output_options_.path.empty()) {
      print_output(text);
    } else {
      write_file(output_options_.path, text);
    }
  }

  views::Page page(const Graph& graph, Format format) const {
    views::Page page{{pass_table(graph)}};
    if (is_for_people(format)) page.tables.push_back(op_table(graph));
    return page;
  }

  views::Table pass_table(const Graph& graph) const {
    views::Table table;
    table.caption = fmt::format("Passes of {}", graph.name);
    table.columns = {{"pass", "pass"},
                     {"changed", "changed"},
                     {"milliseconds", "ms", "{:.2f}"},
                     {"nodes", "nodes"},
                     {"launches", "launches"}};
    double milliseconds = 0;
    for (const PassRow& pass : passes_) {
      table.add({std::string(pass.result.name), std::string(pass.result.changed ? "yes" : "no"),
                 pass.result.milliseconds, pass.nodes, pass.launches});
      milliseconds += pass.result.milliseconds;
    }
    table.note = fmt::format("{} passes took {:.1f} ms. Nodes and launches are counted after the pass.", passes_.size(),
                             milliseconds);
    return table;
  }

  static views::Table op_table(const Graph& graph) {
    std::map<Op, std::int64_t> counts;
    for (const NodeId id : graph.order()) ++counts[graph.node(id).op];
    std::vector<std::pair<Op, std::int64_t>> sorted(counts.begin(), counts.end());
    std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<Op, std::int64_t>::second);
    views::Table table;
    table.caption = "Ops of the graph after these passes";
    table.columns = {{"op", "op"}, {"class", "class"}, {"nodes", "nodes"}};
    for (const auto& [op, count] : sorted)
      table.add({std::string(ridgepoint::name(op)), std::string(ridgepoint::name(op_class(op))), count});
    return table;
  }

  const std::string notes_ =
      fmt::format("The passes run in this order: {}. No kernel runs.", fmt::join(pass_names(), ", "));
  RunOptions run_options_{std::vector<std::string_view>{"--warmup", "--steps", "--seed"}};
  OutputOptions output_options_;
  std::string workload_ = "model", graph_file_, after_, skip_;
  bool text_ = false;
  std::vector<PassRow> passes_;
};

}  // namespace

std::unique_ptr<Command> make_graph() { return std::make_unique<GraphCommand>(); }

}  // namespace ridgepoint::cli
