// Calculations of a training step on several ranks: the bytes that are sent, the times of communication and arithmetic,
// the tokens from which communication hides, the memory of a rank, and the savings of activation checkpointing. Each
// calculation is a formula (formula.h) with its figures, beside the planned value if the engine has one.
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

// The calculations of a Transformer's training step on compile.parallel.data ranks, at least 2, each with this card.
// Every sharding is planned on the null device, whatever the configuration's sharding is. `card` must have a link, or
// the configuration a network. Throws Error (usage) for a run that the formulas do not describe, and for a card without
// a rate. Empty if the watcher stopped it.
std::optional<Explanation> explain(const RunConfig& config, const Datasheet& card, std::int64_t capacity_bytes,
                                   const StepWatcher& watch = {});

// The heading of a topic, and notes for its rows.
struct ExplainedTopic {
  std::string_view topic, title, note;
};
const std::vector<ExplainedTopic>& explained_topics();

}  // namespace ridgepoint
