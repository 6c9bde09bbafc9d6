// ridgepoint precision: what a type does to sums, which type each part of a model takes under autocast, and how far
// each is from double precision.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/command.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "core/files/file.h"
#include "measure/precision/accumulation.h"
#include "measure/precision/errors.h"
#include "measure/precision/types.h"
#include "models/toy_model.h"
#include "passes/autocast.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

using views::Align;
using views::Cell;
using views::Cells;
using views::Table;

// A graph file larger than this is no graph anyone wrote.
constexpr std::size_t kMaxGraphBytes = std::size_t{256} << 20;

Table accumulation_table(std::int64_t count, double term) {
  Table table;
  table.caption = fmt::format("{} times {} added up, exactly {:.10g}", count, term, static_cast<double>(count) * term);
  table.columns = {{"statement", "sum"},
                   {"sum_dtype", "type of the sum", "{}", Align::by_content, 1},
                   {"term_dtype", "of the term", "{}", Align::by_content, 1},
                   {"result", "result", "{:.8f}"},
                   {"relative_error", "relative error", "{:.2e}"}};
  for (const Accumulation& row : accumulate_in_each_type(count, term, stop_if_interrupted)) {
    table.add({row.statement, std::string(ridgepoint::name(row.sum)), std::string(ridgepoint::name(row.term)),
               row.result, row.error});
  }
  table.note =
      "A term that is rounded is wrong once; a sum that is rounded is wrong at every step. A compensated (Kahan) sum "
      "carries what it lost to the next term.";
  return table;
}

// Backward and optimizer nodes follow from the forward ones; --detail shows them.
bool is_listed(const TypeRow& row, bool detail) {
  return detail || (row.part != "backward" && row.part != "optimizer");
}

Table type_table(const Graph& graph, Precision precision, bool detail) {
  const TypeTable types = types_of(graph);
  Table table;
  table.caption = fmt::format("{} under {} autocast", graph.name, ridgepoint::name(precision));
  table.columns = {{"part", "part"},     {"module", "module"},
                   {"op", "op"},         {"operands", "operands", "{}", Align::by_content, 1},
                   {"result", "result"}, {"nodes", "nodes", "{}", Align::by_content, 2}};
  for (const TypeRow& row : types.rows) {
    if (!is_listed(row, detail)) continue;
    const auto text_or_nothing = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
    table.add({row.part, row.module, text_or_nothing(row.op), text_or_nothing(row.operands), row.result, row.nodes});
  }
  table.note =
      fmt::format("{} casts, {} of them of parameters: each parameter is cast once and its gradient uses that.",
                  types.casts, types.weight_casts);
  return table;
}

std::vector<PrecisionVariant> parse_variants(const std::string& list, bool low_norms) {
  std::vector<PrecisionVariant> variants;
  for (const std::string& text : split_list("--dtype", list)) {
    const Precision precision = precision_from_name(text);
    if (std::ranges::find(variants, precision, &PrecisionVariant::precision) != variants.end()) {
      throw Error(fmt::format("--dtype: '{}' is in the list twice", text), ErrorKind::usage);
    }
    variants.push_back({precision, false});
    const bool is_low = precision == Precision::bf16 || precision == Precision::fp16;
    if (low_norms && is_low) variants.push_back({precision, true});
  }
  return variants;
}

std::string preset_list() {
  std::vector<std::string_view> names;
  for (const TransformerConfig& preset : transformer_presets()) names.push_back(preset.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string key_of(const PrecisionVariant& variant, std::string_view what) {
  std::string key = fmt::format("{}.{}", ridgepoint::name(variant), what);
  std::ranges::replace(key, ' ', '_');
  return key;
}

Table error_table(const std::vector<PrecisionErrorRow>& rows, const std::vector<PrecisionVariant>& variants,
                  const std::string& caption) {
  Table table;
  table.caption = caption;
  table.columns = {{"module", "module"}};
  for (const char* what : {"forward", "gradient"}) {
    for (const PrecisionVariant& variant : variants) {
      table.columns.push_back({key_of(variant, what), fmt::format("{} {}", ridgepoint::name(variant), what), "{:.1e}"});
    }
  }
  const auto cell = [](const std::optional<double>& error) { return error ? Cell(*error) : Cell(); };
  for (const PrecisionErrorRow& row : rows) {
    Cells cells = {row.module};
    for (const PrecisionError& error : row.errors) cells.push_back(cell(error.forward));
    for (const PrecisionError& error : row.errors) cells.push_back(cell(error.gradient));
    table.add(std::move(cells));
  }
  table.note =
      "||x - exact|| / ||exact|| against double precision: of a module's result, and of the gradients of its "
      "parameters.";
  return table;
}

class PrecisionCommand : public Command {
 public:
  std::string_view name() const override { return "precision"; }
  std::string_view summary() const override {
    return "what each number type does to sums, types and errors of a model";
  }
  std::string_view examples() const override {
    return "ridgepoint precision\n"
           "ridgepoint precision --autocast fp16\n"
           "ridgepoint precision --autocast bf16 --model small --detail\n"
           "ridgepoint precision --error --low-norms\n"
           "ridgepoint precision --error --model tiny --context 64 --dtype fp32,bf16 --depth 2 --format csv";
  }
  std::string_view notes() const override {
    return "Without --autocast or --error: a thousand times 0.01 added up in each type. The model is the toy model "
           "(fc1, relu, layer norm, fc2) unless --model, sizes or a graph file say otherwise. --error runs the model "
           "on --device in each type and in double precision on plain loops, so choose a small one.";
  }

  void add_options(CLI::App& app) override {
    constexpr const char* kGroup = "Precision";
    app.add_option("--autocast", autocast_, "show the type of every part under tf32, bf16 or fp16 autocast")
        ->type_name("NAME")
        ->group(kGroup);
    app.add_flag("--error", errors_, "show the error of every part against double precision")->group(kGroup);
    dtype_option_ = app.add_option("--dtype", dtypes_, "with --error: the types to compare [fp32,bf16,fp16]")
                        ->type_name("NAMES")
                        ->group(kGroup);
    low_norms_option_ =
        app.add_flag("--low-norms", low_norms_, "with --error: low types also with norms out of fp32")->group(kGroup);
    depth_option_ = app.add_option("--depth", depth_, "with --error: parts of a module's name that tell rows apart [1]")
                        ->type_name("N")
                        ->group(kGroup);
    detail_option_ = app.add_flag("--detail", detail_, "with --autocast: backward nodes too")->group(kGroup);
    graph_option_ = app.add_option("--graph", graph_file_, "with --autocast: a graph in its text form")
                        ->type_name("FILE")
                        ->group(kGroup);
    count_option_ = app.add_option("--count", count_, "terms of the sums [1000]")->type_name("N")->group(kGroup);
    term_option_ = app.add_option("--term", term_, "what is added [0.01]")->type_name("X")->group(kGroup);
    run_options_.set_help("--model", "a preset instead of the toy model: " + preset_list());
    run_options_.add_to(app);
    output_options_.add_to(app);
  }

  int run() override {
    check_options();
    if (!autocast_.empty()) {
      write(output_options_, types());
    } else if (errors_) {
      write(output_options_, errors());
    } else {
      write(output_options_, accumulation_table(count_, term_));
    }
    return kExitOk;
  }

 private:
  void check_options() const {
    const auto require = [](bool holds, const std::string& message) {
      if (!holds) throw Error(message, ErrorKind::usage);
    };
    require(autocast_.empty() || !errors_, "--autocast and --error make different tables; give one");
    require(depth_ >= 1, "--depth: the least is 1");
    for (const auto& [option, of_errors] : {std::pair(dtype_option_, true),
                                            {low_norms_option_, true},
                                            {depth_option_, true},
                                            {detail_option_, false},
                                            {graph_option_, false}}) {
      const bool applies = of_errors ? errors_ : !autocast_.empty();
      require(applies || option->count() == 0, fmt::format("--{} goes with {}", option->get_lnames().front(),
                                                           of_errors ? "--error" : "--autocast NAME"));
    }
    for (const CLI::Option* option : {count_option_, term_option_}) {
      require(
          (autocast_.empty() && !errors_) || option->count() == 0,
          fmt::format("--{} is of the sums; leave it out, or --autocast and --error", option->get_lnames().front()));
    }
    require(graph_file_.empty() || !names_model(), "--graph is a model of its own; leave out --model and sizes");
    for (const std::string& flag : run_options_.given()) check_applies(flag);
  }

  // Options of what runs, where nothing runs or where it has no such size.
  void check_applies(const std::string& flag) const {
    const auto is_one_of = [&](std::initializer_list<std::string_view> flags) {
      return std::ranges::find(flags, flag) != flags.end();
    };
    std::string problem;
    if (autocast_.empty() && !errors_) {
      problem = "the sums are the same for every model and device; leave it out, or ask for --autocast or --error";
    } else if (!errors_ && is_one_of({"--device", "--threads", "--memory-limit", "--seed"})) {
      problem = "--autocast computes nothing; leave it out, or ask for --error";
    } else if (!names_model()) {
      const bool is_size = is_one_of({"--context", "--batch", "--vocab"});
      if (is_size && graph_file_.empty()) problem = "the toy model has sizes of its own; name another: --model tiny";
      if (is_size && !graph_file_.empty()) problem = "the graph file has sizes of its own; leave it out";
    }
    if (!problem.empty()) throw Error(fmt::format("{}: {}", flag, problem), ErrorKind::usage);
  }

  bool names_model() const {
    return std::ranges::any_of(std::vector<std::string_view>{"--model", "--layers", "--d-model", "--d-ff", "--heads"},
                               [&](std::string_view flag) { return run_options_.given(flag); });
  }

  Table types() const {
    const Precision precision = precision_from_name(autocast_);
    if (precision == Precision::fp32) {
      throw Error("--autocast fp32 is no autocast; choose fp16, bf16 or tf32", ErrorKind::usage);
    }
    return type_table(graph(precision), precision, detail_);
  }

  Graph graph(Precision precision) const {
    if (!graph_file_.empty()) {
      Graph graph = parse_graph(read_file(graph_file_, kMaxGraphBytes));
      autocast(graph, {precision, {}});
      return graph;
    }
    const CompileOptions options{.mode = Mode::backward, .precision = precision};
    return training_graph(workload()->build(), options);
  }

  Table errors() const {
    const RunConfig config = run_options_.single();
    if (config.device == "null") {
      throw Error("--device null computes nothing to compare; use cpu, cuda or reference", ErrorKind::usage);
    }
    const std::vector<PrecisionVariant> variants = parse_variants(dtypes_, low_norms_);
    const std::shared_ptr<Device> device = open_device(config.device, config.device_options);
    const std::shared_ptr<const Workload> compared = workload();
    Progress progress({1});
    progress.start_row(0, "precision");
    double runs = 0;
    const std::vector<PrecisionErrorRow> rows = measure_precision_errors(
        *compared, static_cast<std::uint64_t>(config.seed), variants, device, depth_, [&](std::string_view what) {
          progress.update(std::string(what), runs++ / static_cast<double>(variants.size() + 1));
          return !interrupted();
        });
    progress.clear();
    if (rows.empty()) throw Interrupted("interrupted; nothing was compared");
    const WorkloadDescription description = compared->describe();
    const std::string what = names_model() ? fmt::format("{}, context {}, batch {}", description.model.name,
                                                         description.context, description.batch)
                                           : "toy model";
    return error_table(rows, variants, fmt::format("{}, seed {}, on {}", what, config.seed, config.device));
  }

  std::shared_ptr<const Workload> workload() const {
    if (!names_model()) return std::make_shared<ToyModel>();
    return run_options_.single().workload;
  }

  RunOptions run_options_{std::vector<std::string_view>{"--dtype", "--compile", "--attention", "--checkpoint",
                                                        "--warmup", "--steps", "--mode"}};
  OutputOptions output_options_;
  std::string autocast_, graph_file_, dtypes_ = "fp32,bf16,fp16";
  CLI::Option *dtype_option_ = nullptr, *low_norms_option_ = nullptr, *depth_option_ = nullptr;
  CLI::Option *detail_option_ = nullptr, *graph_option_ = nullptr, *count_option_ = nullptr, *term_option_ = nullptr;
  std::int64_t count_ = 1000;
  double term_ = 0.01;
  int depth_ = 1;
  bool errors_ = false, low_norms_ = false, detail_ = false;
};

}  // namespace

std::unique_ptr<Command> make_precision() { return std::make_unique<PrecisionCommand>(); }

}  // namespace ridgepoint::cli
