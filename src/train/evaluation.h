// The loss on data that a run does not train on.
#pragma once

#include <cstdint>

#include "train/data/sequences.h"
#include "train/forward_program.h"

namespace ridgepoint::train {

// A program that runs forward and loss alone, with parameters of its own. All ranks make and use it together.
class Evaluation {
 public:
  // Throws OutOfMemory where it does not fit beside what is allocated. `batches`: of how many batches of each rank the
  // loss is the mean; fewer where the data have less.
  Evaluation(const RunConfig& config, const StepWatcher& watch, const Sequences& data, std::int64_t batches);

  // The mean loss with the parameters of the program that is trained: the same sequences each time.
  double loss(const Program& trained);
  const ForwardProgram& forward() const { return forward_; }

 private:
  ForwardProgram forward_;
  const Sequences& data_;
  std::int64_t batches_;
};

// "inputs" and "targets" of a run of a program.
struct TokenBatch {
  std::int64_t first = -1;  // the sequence of the run of all ranks that comes first; -1: none is read
  HostTensor inputs, targets;
};
// Sequences from number `first` on, as many as the program takes. Its rows are those of rank `rank`, and each rank
// takes as many.
TokenBatch read_batch(const Program& program, const Sequences& data, std::int64_t first, std::int64_t rank);
void write_batch(Program& program, const TokenBatch& batch);
// The sequences of one run of the program.
std::int64_t rows_of(const Program& program);

}  // namespace ridgepoint::train
