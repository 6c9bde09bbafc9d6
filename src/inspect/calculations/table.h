// The table of symbols and the table of calculations (calculations.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "inspect/calculations/formula.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/network.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/ops/parallel.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

// Counts of parameters. `products`: those that matrix products read. `only_products`: those that nothing else reads.
// `in_blocks`: those whose states may be 8-bit codes.
struct ParameterElements {
  double all = 0, products = 0, only_products = 0, in_blocks = 0;
  double all_of_blocks = 0, only_products_of_blocks = 0;
};

// What the engine plans.
struct PlannedStep {
  std::map<Sharding, Record> runs;
  double saved_bytes = 0;          // for backward, without shards
  double saved_sharded_bytes = 0;  // the same with sharded parameters
  double gradient_bytes = 0;       // when the optimizer begins, without shards
  double layer_saved_bytes = 0;    // by one layer, without checkpointing
  double residual_bytes = 0;       // one activation of the residual stream
  std::optional<double> layer_gradient_bytes = {};
};

struct StepFacts {
  const RunConfig& config;
  const Datasheet& card;
  double capacity_bytes = 0;
  WorkloadDescription workload;
  Network network;
  ParameterElements parameters;
  PlannedStep planned;

  std::int64_t ranks() const { return config.compile.parallel.data; }
  const Record& run(Sharding shard) const { return planned.runs.at(shard); }
};

struct SymbolRow {
  std::string_view symbol, meaning, unit;
  double (*value)(const StepFacts&);
  std::string (*source)(const StepFacts&) = nullptr;
};
std::span<const SymbolRow> symbol_rows();

struct Calculation {
  std::string_view key, symbol, name, formula, unit;
  std::optional<double> (*planned)(const StepFacts&) = nullptr;
  // Searches for the value that makes the formula least.
  double (*search)(const StepFacts&, const Symbols&) = nullptr;
  std::int64_t least_ranks = 2;
};
std::span<const Calculation> calculations();

}  // namespace ridgepoint
