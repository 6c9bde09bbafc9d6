#include "inspect/calculations/calculations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/memory_category.h"
#include "core/text/throw_error.h"
#include "inspect/calculations/table.h"
#include "inspect/memory/run/measure_memory.h"
#include "ir/queries.h"
#include "ir/scope.h"
#include "models/transformer/transformer.h"
#include "predict/time/network.h"
#include "ridgepoint/ops/optimizer.h"
#include "run/session/plan_run.h"

namespace ridgepoint {
namespace {

struct Uses {
  bool by_products = false, by_others = false;
};

// Through casts and views.
void follow(const Graph& graph, const Readers& readers, Value value, Uses& uses) {
  for (const NodeId id : readers.of(value)) {
    const Node& node = graph.node(id);
    if (node.op == Op::matmul || node.op == Op::matmul_add)
      uses.by_products = true;
    else if (node.op == Op::cast || op_class(node.op) == OpClass::view)
      follow(graph, readers, node.outputs[0], uses);
    else
      uses.by_others = true;
  }
}

ParameterElements elements_of(const Graph& graph) {
  const Readers readers(graph);
  ParameterElements found;
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Node& node = graph.node(id);
    const auto elements = static_cast<double>(graph.type(node.outputs[0]).elements());
    Uses uses;
    follow(graph, readers, node.outputs[0], uses);
    const double only_products = uses.by_products && !uses.by_others ? elements : 0;
    const bool is_in_block = !block_of(input_name(node)).empty();
    found.all += elements;
    found.products += uses.by_products ? elements : 0;
    found.only_products += only_products;
    found.in_blocks += state_type(StateType::scales, graph.type(node.outputs[0])) ? elements : 0;
    found.all_of_blocks += is_in_block ? elements : 0;
    found.only_products_of_blocks += is_in_block ? only_products : 0;
  }
  return found;
}

void refuse(bool condition, const std::string& sentence) {
  if (condition) throw Error("--explain " + sentence, ErrorKind::usage);
}

void require_described(const RunConfig& config, const Datasheet& card) {
  const CompileOptions& compile = config.compile;
  const TransformerConfig* model = config.workload->transformer();
  refuse(model == nullptr,
         "calculates a training step of a Transformer; leave --workload out, and give a --model instead");
  refuse(model->architecture.experts.count > 0,
         fmt::format("calculates models in which every token meets every weight, and {} has experts; give a --model "
                     "without",
                     model->name));
  refuse(compile.mode != Mode::step,
         fmt::format("calculates whole training steps, not --mode {}; leave --mode out", name(compile.mode)));
  refuse(!compile.frozen.empty() || compile.lora.has_value(),
         "calculates steps that train every parameter; leave --frozen and --lora out");
  refuse(!compile.parallel.overlap, "calculates sums that run beside backward; leave overlap=off out");
  refuse(config.choose_bucket, "calculates with one size of buckets; give a size instead of bucket=auto");
  refuse(compile.accumulate > 1, "calculates steps of one micro-batch; leave --accumulate out");
  refuse(compile.checkpoint == Checkpoint::automatic,
         "compares shardings with the same activations; give a policy instead of --checkpoint auto");
  refuse(config.plan_as != PlanAs::ridgepoint,
         "puts the plans of this engine beside the formulas, not those of PyTorch; leave --as out");
  refuse(config.device != "null",
         fmt::format("plans for a card that need not be there; leave --device {} out", config.device));
  refuse(!datasheet_flops_per_second(card, name(compile.precision)),
         fmt::format("divides by the rate of the datasheet, and that of {} has none of {}; give another --dtype",
                     card.card, name(compile.precision)));
}

Network network_of(const RunConfig& config, const Datasheet& card) {
  if (config.network) return *config.network;
  if (const std::optional<Network> network = network_of_card(card.link_bytes_per_second)) return *network;
  throw_error(ErrorKind::usage,
              "--explain divides by the rate of the links between ranks, which differ between machines with "
              "{}; name them, as --network \"8x PCIe 32 GB/s\"",
              card.card);
}

RunConfig sharded(RunConfig config, Sharding shard) {
  config.compile.parallel.shard = shard;
  config.choose_sharding = config.choose_bucket = false;
  return config;
}

// Empty if the plan was stopped. Throws Error if it failed.
std::optional<MemoryRun> planned_memory(RunConfig config, const StepWatcher& watch) {
  config.warmup = config.steps = 1;
  std::optional<MemoryRun> run = measure_memory(config, watch);
  if (run && run->run.status != RunStatus::ok) throw Error(run->run.error.message);
  return run;
}

double saved_bytes(const MemoryReport& report) {
  return report.before_backward
             ? static_cast<double>(report.before_backward->bytes_of(name(MemoryCategory::activation)))
             : 0;
}

double gradient_bytes(const MemoryReport& report) {
  const auto optimizer = std::ranges::find(report.phase_peaks, name(Phase::optimizer), &PhasePeak::phase);
  return optimizer == report.phase_peaks.end()
             ? 0
             : static_cast<double>(optimizer->contents.bytes_of(name(MemoryCategory::gradient)));
}

// False if it was stopped.
bool plan_all(const RunConfig& config, const Datasheet& card, const StepWatcher& watch, PlannedStep& planned) {
  for (const Sharding shard : kAllShardings) {
    std::optional<Record> run = plan_run(sharded(config, shard), {.card = std::string(card.card)}, watch);
    if (!run) return false;
    if (run->status != RunStatus::ok) throw Error(run->error.message);
    planned.runs.emplace(shard, std::move(*run));
  }
  const auto whole = planned_memory(sharded(config, Sharding::none), watch);
  const auto parts = planned_memory(sharded(config, Sharding::parameters), watch);
  RunConfig saves_all = sharded(config, Sharding::none);
  saves_all.compile.checkpoint = Checkpoint::none;
  saves_all.compile.checkpoint_segment = 1;
  const auto all = config.compile.checkpoint == Checkpoint::none ? whole : planned_memory(saves_all, watch);
  if (!whole || !parts || !all) return false;
  planned.saved_bytes = saved_bytes(whole->memory.report);
  planned.saved_sharded_bytes = saved_bytes(parts->memory.report);
  planned.gradient_bytes = gradient_bytes(whole->memory.report);
  if (const std::optional<BlockContents>& block = all->memory.report.block) {
    planned.layer_saved_bytes = static_cast<double>(block->saved.bytes_of(name(MemoryCategory::activation)));
    if (block->requested_gradient_bytes)
      planned.layer_gradient_bytes = static_cast<double>(*block->requested_gradient_bytes);
  }
  if (all->residual) planned.residual_bytes = static_cast<double>(all->residual->bytes);
  return true;
}

// Bytes and ranks are whole, and a least number of tokens is rounded up. Empty for a negative or infinite number of
// tokens: communication then never hides.
std::optional<double> result_of(std::string_view unit, double value) {
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  if (unit == "bytes") return std::round(value);
  if (unit == "tokens") return std::ceil(value);
  return value;
}

}  // namespace

std::optional<Explanation> explain(const RunConfig& config, const Datasheet& card, std::int64_t capacity_bytes,
                                   const StepWatcher& watch) {
  require_described(config, card);
  StepFacts facts{.config = config,
                  .card = card,
                  .capacity_bytes = static_cast<double>(capacity_bytes),
                  .workload = config.workload->describe(),
                  .network = network_of(config, card),
                  .parameters = elements_of(config.workload->build()),
                  .planned = {}};
  ring_of(facts.network, facts.ranks(), Op::all_reduce);  // refuses ranks that no links connect
  if (!plan_all(config, card, watch, facts.planned)) return std::nullopt;
  Explanation found{.run = facts.run(Sharding::none), .card = std::string(card.card), .symbols = {}, .rows = {}};
  Symbols symbols;
  for (const SymbolRow& row : symbol_rows()) {
    const double value = row.value(facts);
    symbols.emplace(row.symbol, value);
    found.symbols.push_back(
        {row.symbol, row.meaning, row.unit, row.source != nullptr ? row.source(facts) : std::string(), value});
  }
  for (const Calculation& calculation : calculations()) {
    if (facts.ranks() < calculation.least_ranks) continue;
    const bool is_searched = calculation.search != nullptr;
    const double value = is_searched ? calculation.search(facts, symbols) : value_of(calculation.formula, symbols);
    if (!calculation.symbol.empty()) symbols.emplace(calculation.symbol, value);
    found.rows.push_back({.key = calculation.key,
                          .symbol = calculation.symbol,
                          .name = calculation.name,
                          .formula = calculation.formula,
                          .figures = is_searched ? std::string() : with_figures(calculation.formula, symbols),
                          .unit = calculation.unit,
                          .value = result_of(calculation.unit, value),
                          .planned = calculation.planned != nullptr ? calculation.planned(facts) : std::nullopt});
  }
  return found;
}

}  // namespace ridgepoint
