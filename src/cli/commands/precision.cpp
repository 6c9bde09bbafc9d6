// ridgepoint precision: rounding errors of sums in each number type and of the steps of a layer norm, the types of a
// model under autocast, the errors of a model against double precision, and its losses on a text in each type.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include "cli/terminal/run_rows.h"
#include "core/files/file.h"
#include "inspect/precision/errors.h"
#include "inspect/precision/loss_curve.h"
#include "passes/precision/autocast.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

using tables::Align;
using tables::Cell;
using tables::Cells;
using tables::optional_cell;
using tables::Table;
using tables::text_cell;

Table accumulation_table(std::int64_t count, double term) {
  Table table;
  table.caption = fmt::format("The sum of {} terms of {}; the exact sum is {:.10g}", count, term,
                              static_cast<double>(count) * term);
  table.columns = {{"statement", "statement"},
                   {"sum_dtype", "sum type", "{}", Align::by_content, 1},
                   {"term_dtype", "term type", "{}", Align::by_content, 1},
                   {"terms", "terms", "{}", Align::by_content, 2},
                   {"term", "term", "{}", Align::by_content, 2},
                   {"result", "result", "{:.8f}"},
                   {"relative_error", "relative error", "{:.2e}"}};
  for (const Accumulation& row : accumulate_in_each_type(count, term, stop_if_interrupted)) {
    table.add({row.statement, std::string(ridgepoint::name(row.sum)), std::string(ridgepoint::name(row.term)), count,
               term, row.result, row.error});
  }
  table.note =
      "Rounding the term adds one error; rounding the sum adds one error a step. A compensated (Kahan) sum adds what "
      "rounding lost to the next term.";
  return table;
}

// Forward nodes determine the types of backward and optimizer nodes; --detail shows these too.
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
    table.add({row.part, row.module, text_cell(row.op), text_cell(row.operands), row.result, row.nodes});
  }
  table.note =
      fmt::format("{} casts, {} of them of parameters. A parameter is cast once, and backward uses the same copy.",
                  types.casts, types.weight_casts);
  return table;
}

std::vector<PrecisionVariant> parse_variants(const std::string& list, bool low_norms) {
  std::vector<PrecisionVariant> variants;
  for (const std::string& text : parse_option("--dtype", list, split_list)) {
    const Precision precision = parse_option("--dtype", text, precision_from_name);
    if (std::ranges::find(variants, precision, &PrecisionVariant::precision) != variants.end()) {
      refuse("--dtype: '{}' is in the list twice", text);
    }
    variants.push_back({precision, false});
    const bool is_low = precision == Precision::bf16 || precision == Precision::fp16;
    if (low_norms && is_low) variants.push_back({precision, true});
  }
  return variants;
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
  for (const PrecisionErrorRow& row : rows) {
    Cells cells = {row.module};
    for (const PrecisionError& error : row.errors) cells.push_back(optional_cell(error.forward));
    for (const PrecisionError& error : row.errors) cells.push_back(optional_cell(error.gradient));
    table.add(std::move(cells));
  }
  table.note =
      "Relative L2 errors against double precision, ||x - exact|| / ||exact||: of the module's result, and of the "
      "gradients of its parameters.";
  return table;
}

Table norm_table() {
  Table table;
  table.caption = "Layer norm of 1024 values, one step of it in a 16-bit type, the others in double precision";
  table.columns = {{"step", "step"}, {"spread", "mean and deviation", "{:g}"}, {"largest", "largest value", "{:.3g}"}};
  for (const NormStep& step : round_steps_of_layer_norm()) {
    Cells cells = {step.step, step.spread, step.largest};
    for (const auto& [dtype, error] : step.errors) {
      const std::string_view type = ridgepoint::name(dtype);
      if (table.rows.empty())
        table.columns.push_back({fmt::format("{}.error", type), fmt::format("{} error", type), "{:.1e}"});
      cells.push_back(error);
    }
    table.add(std::move(cells));
  }
  table.note =
      "Relative L2 errors of the result. A sum is rounded after each addition. The largest number of fp16 is 65504. An "
      "error of 1 is a result of zeros, inf one that is not finite.";
  return table;
}

// Means of so many steps in a row, in about so many rows.
constexpr std::size_t kCurveRows = 20;

constexpr std::int64_t kMostTerms = 10'000'000'000;  // of a sum: they take some minutes

Table curve_table(const std::vector<LossCurve>& curves, const std::string& caption) {
  Table table;
  table.caption = caption;
  table.columns = {{"step", "step"}};
  for (const LossCurve& curve : curves) {
    const std::string_view precision = ridgepoint::name(curve.precision);
    table.columns.push_back({fmt::format("{}.loss", precision), fmt::format("{} loss", precision), "{:.4f}"});
  }
  const std::size_t steps = curves.front().losses.size();
  const std::size_t interval = std::max<std::size_t>(1, steps / kCurveRows);
  for (std::size_t end = interval; end <= steps; end += interval) {
    Cells cells = {static_cast<std::int64_t>(end)};
    for (const LossCurve& curve : curves) {
      double sum = 0;
      for (std::size_t step = end - interval; step < end; ++step) sum += curve.losses[step];
      cells.push_back(sum / static_cast<double>(interval));
    }
    table.add(std::move(cells));
  }
  table.note =
      interval == 1
          ? "Each row has the loss of its step. A token is a byte."
          : fmt::format("Each row has the mean loss of the {} steps that end with its step. A token is a byte.",
                        interval);
  return table;
}

class PrecisionCommand : public Command {
 public:
  std::string_view name() const override { return "precision"; }
  std::string_view summary() const override { return "show rounding errors of number types, in sums and in a model"; }
  std::string_view examples() const override {
    return "ridgepoint precision\n"
           "ridgepoint precision --autocast fp16\n"
           "ridgepoint precision --autocast bf16 --model small --detail\n"
           "ridgepoint precision --error --low-norms\n"
           "ridgepoint precision --norm\n"
           "ridgepoint precision --error --model tiny --context 64 --dtype fp32,bf16 --depth 2 --format csv\n"
           "ridgepoint precision --loss-curve text.txt --model small --batch 16 --dtype bf16,fp8";
  }
  std::string_view notes() const override {
    return "Without --autocast, --error, --norm or --loss-curve the command adds 0.01 a thousand times in each type. "
           "The default model is the toy model (fc1, relu, layer norm, fc2). --error runs the model on --device in "
           "each "
           "type, and once in double precision on slow, plain loops; choose a small model. --loss-curve trains a model "
           "on the bytes of a file in each type, from the same weights.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Precision");
    group.add("--autocast", autocast_, "NAME", "show the types of all ops under tf32, bf16, fp16 or fp8 autocast",
              {"tf32", "bf16", "fp16", "fp8"}, Takes::one);
    group.add_flag("--error", errors_, "show the error of every module against double precision");
    group.add_flag("--norm", norm_, "show the error that each step of a layer norm adds in fp16 and bf16");
    dtype_option_ =
        group.add("--dtype", dtypes_, "NAMES", "with --error or --loss-curve: types to compare [fp32,bf16,fp16,fp8]",
                  names_of(kAllPrecisions), Takes::list);
    low_norms_option_ =
        group.add_flag("--low-norms", low_norms_, "with --error: also run bf16 and fp16 with norms in the low type");
    group.add("--loss-curve", text_file_, "FILE", "show the losses of training on the bytes of this file in each type");
    train_steps_option_ = group.add("--train-steps", train_steps_, "N", "with --loss-curve: the number of steps [200]");
    depth_option_ = group.add("--depth", depth_, "N", "with --error: levels of modules, one row for each module [1]");
    detail_option_ = group.add_flag("--detail", detail_, "with --autocast: also show backward and optimizer");
    graph_option_ = group.add("--graph", graph_file_, "FILE",
                              "with --autocast: read a graph in text form (graph --text prints one)");
    count_option_ = group.add("--count", count_, "N", "number of terms in the sums [1000]");
    term_option_ = group.add("--term", term_, "X", "value of each term [0.01]");
    run_options_.set_default("--workload", "toy");
    run_options_.use_defaults_of_presets();
    run_options_.set_help("--model", "use this model instead of the toy model: as bench takes it");
    run_options_.add_to(app);
    output_options_.add_to(app);
  }

  int run() override {
    if (names_model()) run_options_.set_default("--workload", "transformer");
    check_options();
    const Table table = !autocast_.empty()    ? types()
                        : errors_             ? errors()
                        : norm_               ? norm_table()
                        : !text_file_.empty() ? curves()
                                              : accumulation_table(count_, term_);
    write(output_options_, [&](Format, std::size_t) { return tables::Page{.tables = {table}}; });
    require_complete(finished_curves_, all_curves_, output_options_.path, "curves");
    return kExitOk;
  }

 private:
  void check_options() const {
    require((autocast_.empty() ? 0 : 1) + (errors_ ? 1 : 0) + (norm_ ? 1 : 0) + (text_file_.empty() ? 0 : 1) <= 1,
            "--autocast, --error, --norm and --loss-curve print different tables; give one");
    require(depth_ >= 1, "--depth: the least is 1");
    require(train_steps_ >= 1, "--train-steps: the least is 1");
    require(count_ <= kMostTerms, "--count: {} is too large; the most is {}", count_, kMostTerms);
    require(dtype_option_->count() == 0 || errors_ || !text_file_.empty(), "--dtype needs --error or --loss-curve");
    require(train_steps_option_->count() == 0 || !text_file_.empty(), "--train-steps needs --loss-curve");
    require(text_file_.empty() || names_model() || run_options_.given("--workload"),
            "--loss-curve trains a language model; add --model small");
    for (const auto& [option, of_errors] :
         {std::pair(low_norms_option_, true), {depth_option_, true}, {detail_option_, false}, {graph_option_, false}}) {
      const bool applies = of_errors ? errors_ : !autocast_.empty();
      require(applies || option->count() == 0, "--{} needs {}", option->get_lnames().front(),
              of_errors ? "--error" : "--autocast NAME");
    }
    for (const CLI::Option* option : {count_option_, term_option_}) {
      require(adds_numbers() || option->count() == 0,
              "--{} applies to the sums only, without --autocast, --error, --norm and --loss-curve",
              option->get_lnames().front());
    }
    require(graph_file_.empty() || !names_model(), "--graph replaces the model; leave out --model and sizes");
    require(graph_file_.empty() || !run_options_.given("--workload"),
            "--graph replaces the workload; leave --workload out");
    for (const std::string& flag : run_options_.given()) check_applies(flag);
  }

  // Refuses options that the chosen mode would ignore.
  void check_applies(const std::string& flag) const {
    const auto is_one_of = [&](std::initializer_list<std::string_view> flags) {
      return std::ranges::find(flags, flag) != flags.end();
    };
    std::string problem;
    if (norm_) {
      problem = "--norm uses no model and no device; leave it out, or use --error";
    } else if (adds_numbers()) {
      problem = "the sums use no model and no device; leave it out, or add --autocast, --error or --loss-curve";
    } else if (!autocast_.empty() && is_one_of({"--device", "--threads", "--memory-limit", "--allocator", "--seed"})) {
      problem = "--autocast runs nothing; leave it out, or use --error";
    } else if (!names_model() && !run_options_.given("--workload")) {
      const bool is_size = is_one_of({"--context", "--batch", "--vocab"});
      if (is_size && graph_file_.empty()) problem = "the toy model has fixed sizes; choose another model: --model tiny";
      if (is_size && !graph_file_.empty()) problem = "the graph file has fixed sizes; leave it out";
    }
    require(problem.empty(), "{}: {}", flag, problem);
  }

  bool adds_numbers() const { return autocast_.empty() && !errors_ && !norm_ && text_file_.empty(); }

  bool names_model() const {
    return std::ranges::any_of(std::vector<std::string_view>{"--model", "--layers", "--d-model", "--d-ff", "--heads"},
                               [&](std::string_view flag) { return run_options_.given(flag); });
  }

  Table types() const {
    const Precision precision = parse_option("--autocast", autocast_, precision_from_name);
    require(precision != Precision::fp32, "--autocast fp32 casts nothing; choose fp16, bf16, fp8 or tf32");
    return type_table(graph(precision), precision, detail_);
  }

  Graph graph(Precision precision) const {
    if (!graph_file_.empty()) {
      Graph graph = read_graph_file(graph_file_);
      autocast(graph, {precision, {}});
      return graph;
    }
    const CompileOptions options{.mode = Mode::forward_backward, .precision = precision};
    return training_graph(workload()->build(), options);
  }

  Table errors() const {
    const RunConfig config = run_options_.single();
    require(config.device != "null", "--device null computes nothing to compare; use cpu, cuda or reference");
    const std::vector<PrecisionVariant> variants = parse_variants(dtypes_, low_norms_);
    const std::shared_ptr<Device> device = open_device(config.device, config.device_options);
    const std::shared_ptr<const Workload> compared = workload();
    Progress progress({1});
    progress.start_row(0, "precision");
    double runs = 0;
    const std::vector<PrecisionErrorRow> rows = measure_precision_errors(
        *compared, static_cast<std::uint64_t>(config.seed), variants, device, depth_,
        [&](std::string_view what) {
          progress.update(std::string(what), runs++ / static_cast<double>(variants.size() + 1));
          return !interrupted();
        },
        config.allocator);
    progress.clear();
    if (rows.empty()) throw Interrupted("interrupted; nothing was compared");
    const WorkloadDescription description = compared->describe();
    const std::string what =
        compared->transformer() != nullptr
            ? fmt::format("{}, context {}, batch {}", description.model.name, description.context, description.batch)
            : fmt::format("{} model", description.model.name);
    return error_table(rows, variants, fmt::format("{}, seed {}, on {}", what, config.seed, config.device));
  }

  Table curves() {
    const RunConfig config = run_options_.single();
    require(config.device != "null", "--device null computes no loss; use cpu, cuda or reference");
    const std::string text = read_file(text_file_, kMaxTextBytes);
    LossCurveOptions options{.precisions = {}, .steps = train_steps_, .seed = static_cast<std::uint64_t>(config.seed)};
    for (const PrecisionVariant& variant : parse_variants(dtypes_, false))
      options.precisions.push_back(variant.precision);
    const std::shared_ptr<Device> device = open_device(config.device, config.device_options);
    Progress progress({1});
    progress.start_row(0, "precision");
    const auto all = static_cast<double>(options.steps * std::ssize(options.precisions));
    double done = 0;
    const std::vector<LossCurve> found =
        measure_loss_curves(*config.workload, text, options, device, [&](Precision precision, std::int64_t) {
          progress.update(std::string(ridgepoint::name(precision)), done++ / all);
          return !interrupted();
        });
    progress.clear();
    finished_curves_ = found.size();
    all_curves_ = options.precisions.size();
    if (found.empty()) require_complete(finished_curves_, all_curves_, "", "curves");
    const WorkloadDescription description = config.workload->describe();
    return curve_table(found,
                       fmt::format("{}, context {}, batch {}, seed {}, on {}: training on {}", description.model.name,
                                   description.context, description.batch, config.seed, config.device, text_file_));
  }

  std::shared_ptr<const Workload> workload() const { return run_options_.single().workload; }

  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context batch "
      "allocator loss-chunk seed";
  RunOptions run_options_{kSettings};
  OutputOptions output_options_;
  static constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;

  std::string autocast_, graph_file_, text_file_, dtypes_ = "fp32,bf16,fp16,fp8";
  CLI::Option *dtype_option_ = nullptr, *low_norms_option_ = nullptr, *depth_option_ = nullptr;
  CLI::Option *detail_option_ = nullptr, *graph_option_ = nullptr, *count_option_ = nullptr, *term_option_ = nullptr;
  CLI::Option* train_steps_option_ = nullptr;
  std::int64_t count_ = 1000, train_steps_ = 200;
  std::size_t finished_curves_ = 0, all_curves_ = 0;  // of --loss-curve
  double term_ = 0.01;
  int depth_ = 1;
  bool errors_ = false, low_norms_ = false, norm_ = false, detail_ = false;
};

}  // namespace

std::unique_ptr<Command> make_precision() { return std::make_unique<PrecisionCommand>(); }

}  // namespace ridgepoint::cli
