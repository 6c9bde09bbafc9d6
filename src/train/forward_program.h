// A program of only the forward graph, with other outputs, for evaluation and generation.
#pragma once

#include <functional>

#include "ridgepoint/models/run_config.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/session.h"

namespace ridgepoint::train {

class ForwardProgram {
 public:
  // `change` gets the forward graph of the workload and may change everything but parameters and data. The program is
  // planned, made and initialised. Throws OutOfMemory if it does not fit in the remaining memory, and as Session does.
  ForwardProgram(RunConfig config, const std::function<void(Graph&)>& change, const StepWatcher& watch);
  ForwardProgram(const ForwardProgram&) = delete;
  ForwardProgram& operator=(const ForwardProgram&) = delete;

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  std::size_t peak_bytes() const { return session_.ready_peak_bytes(); }  // that its runs reserve, by its forecast
  const ParallelOptions& parallel() const { return session_.parallel(); }
  ProcessGroup* group() const { return config_.group.get(); }

 private:
  const RunConfig config_;
  Record record_;  // not read
  Session session_;
  Program program_;
};

}  // namespace ridgepoint::train
