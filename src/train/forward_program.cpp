#include "train/forward_program.h"

#include <memory>
#include <utility>

namespace ridgepoint::train {
namespace {

using Change = std::function<void(Graph&)>;

// The parameters and data of a workload, and its changed graph.
class ChangedWorkload final : public Workload {
 public:
  ChangedWorkload(std::shared_ptr<const Workload> model, Change change)
      : model_(std::move(model)), change_(std::move(change)) {}

  WorkloadDescription describe() const override { return model_->describe(); }
  const TransformerConfig* transformer() const override { return model_->transformer(); }
  TruncatedNormal initial_distribution(const ParameterDeclaration& parameter) const override {
    return model_->initial_distribution(parameter);
  }
  void write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const override {
    model_->write_data(program, seed, stop_point);
  }
  Graph build(const StopPoint& stop_point) const override {
    Graph graph = model_->build(stop_point);
    change_(graph);
    return graph;
  }

 private:
  std::shared_ptr<const Workload> model_;
  Change change_;
};

RunConfig of_forward(RunConfig config, const Change& change) {
  config.workload = std::make_shared<ChangedWorkload>(config.workload, change);
  config.compile.mode = Mode::forward;
  config.compile.offload = offload_in(Mode::forward, config.compile.offload);
  config.compile.accumulate = 1;
  config.compile.loss_chunk_rows = {};
  config.compile.keep = {};
  return config;
}

}  // namespace

ForwardProgram::ForwardProgram(RunConfig config, const Change& change, const StepWatcher& watch)
    : config_(of_forward(std::move(config), change)),
      record_(describe_run(config_, Experiment::bench)),
      session_(config_, watch, record_),
      program_(session_.ready_program()) {}

}  // namespace ridgepoint::train
