// Finds the first node of a run that makes a NaN, or an infinity from finite operands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/runtime/program.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

// Observes a program from construction to destruction. It reads back the results of every launch, so a run takes many
// times as long. The infinities of a mask, and results that derive from them, are no anomaly.
class AnomalyDetector : public LaunchObserver {
 public:
  explicit AnomalyDetector(Program& program);
  ~AnomalyDetector() override;
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;

  // A sentence on the first anomaly: op, module, phase, element and type. Empty if there was none.
  const std::optional<std::string>& first() const { return first_; }

  void run_begins() override;
  void before_launch(std::uint32_t launch) override { check(launch, &AnomalyDetector::check_inputs); }
  void after_launch(std::uint32_t launch) override { check(launch, &AnomalyDetector::check_results); }

 private:
  struct Found {
    bool nan = false;
    bool infinity = false;
    std::int64_t element = 0;  // the first of them
  };
  static Found scan(const HostTensor& tensor);
  void check(std::uint32_t launch, void (AnomalyDetector::*values)(const Node&));
  void check_inputs(const Node& node);
  void check_results(const Node& node);
  void check_result(const Node& node, Value value);
  bool holds_infinity(Value operand) const;

  Program& program_;
  std::vector<NodeId> nodes_;         // by launch
  std::vector<bool> holds_infinity_;  // by value: an expected infinity
  std::vector<bool> is_checked_;      // by value: inputs, and results of collectives
  std::optional<std::string> first_;
};

}  // namespace ridgepoint
