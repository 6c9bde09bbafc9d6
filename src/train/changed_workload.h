// A workload with other outputs: what a program computes beside steps of training.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "ridgepoint/workload.h"

namespace ridgepoint::train {

// The same parameters and data; `change` gets the forward graph.
class ChangedWorkload final : public Workload {
 public:
  using Change = std::function<void(Graph&)>;
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

}  // namespace ridgepoint::train
