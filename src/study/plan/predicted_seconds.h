// How long the command lines of a study take, roughly: from their operations, the bytes that attention moves, and the
// rates of the machine. A prediction chooses rows; nothing that is shown depends on it.
#pragma once

#include <cstdint>

#include "models/transformer.h"
#include "ridgepoint/compile.h"
#include "study/plan/machine.h"

namespace ridgepoint {

// Memory that has no room for this many matrices of scores has none for a call that stores them.
inline constexpr int kScoreMatricesOfMemory = 4;

struct StudyIterations {
  std::int64_t warmup = 5;
  std::int64_t steps = 10;
  std::int64_t total() const { return warmup + steps; }
};

// Of one process, before its first row.
double start_seconds(const StudyMachine& machine);

// One iteration of a model.
double iteration_seconds(const StudyMachine& machine, TransformerConfig model, Mode mode, std::int64_t batch,
                         std::int64_t context, DType dtype);
// Its initial values.
double initial_seconds(const StudyMachine& machine, const TransformerConfig& model);

// Whether one call of attention, with 8 matrices of one head, clearly does not fit in memory if it stores all scores:
// its backward needs more than kScoreMatricesOfMemory of them.
bool scores_exceed_memory(const StudyMachine& machine, std::int64_t sequence);
// Forward, and forward with backward, of such a call, which stores all scores or none of them. 0 where they do not fit.
double attention_seconds(const StudyMachine& machine, std::int64_t width, std::int64_t sequence, bool stores_scores,
                         const StudyIterations& iterations);

}  // namespace ridgepoint
