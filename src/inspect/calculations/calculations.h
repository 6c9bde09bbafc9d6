// The written calculations of a training step on several ranks: what is sent, how long that and the arithmetic take,
// from how many tokens on communication hides, what a rank stores, and what activation checkpointing saves. Each is a
// formula (formula.h) with its figures; where the engine plans the same quantity, that stands beside it.
// docs/calculations.md has the sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predict/cards/datasheet.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

struct ExplainedSymbol {
  std::string_view symbol;
  std::string_view meaning;
  std::string_view unit;
  std::string source;  // the option or the table that the value is from; may be empty
  double value = 0;
};

struct ExplainedRow {
  std::string_view key;     // "data_parallel.bytes": its topic, and its name there
  std::string_view symbol;  // that later formulas name it by; may be empty
  std::string_view name;
  std::string_view formula;
  std::string figures;  // the formula with figures; empty for a value that was searched for
  std::string_view unit;
  std::optional<double> value;    // empty where there is none: no number of tokens hides it
  std::optional<double> planned;  // by the engine

  std::string_view topic() const { return key.substr(0, key.find('.')); }
};

struct Explanation {
  Record run;  // the plan without shards
  std::string card;
  std::vector<ExplainedSymbol> symbols;
  std::vector<ExplainedRow> rows;
};

// Of a training step of a Transformer on compile.parallel.data ranks, 2 at least, each with such a card; every sharding
// is planned on the null device, so the configuration's own does not count. `card` has a link, or the configuration a
// network. Throws Error (usage) for a run that the formulas do not describe, and for a card without a rate. Empty if
// the watcher stopped it.
std::optional<Explanation> explain(const RunConfig& config, const Datasheet& card, std::int64_t capacity_bytes,
                                   const StepWatcher& watch = {});

// A heading and what one must know to read the rows of a topic.
struct ExplainedTopic {
  std::string_view topic, title, note;
};
const std::vector<ExplainedTopic>& explained_topics();

}  // namespace ridgepoint
