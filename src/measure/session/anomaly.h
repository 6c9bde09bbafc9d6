// Finds the first node of a run that makes a NaN or an infinity of finite operands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/program.h"
#include "runtime/activity.h"

namespace ridgepoint {

// Watches a program from construction to destruction, whose launches it makes wait for each other and whose results it
// reads back: a run takes many times as long. Infinities that a mask writes, and what is made of them, are no anomaly.
class AnomalyDetector : public LaunchObserver {
 public:
  explicit AnomalyDetector(Program& program);
  ~AnomalyDetector() override;
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;

  // What was found since construction, in a sentence: op, module, phase, element and types. Empty when all was finite.
  const std::optional<std::string>& first() const { return first_; }

  void run_begins() override;
  void before_launch(std::uint32_t launch) override;
  void after_launch(std::uint32_t launch) override;

 private:
  struct Found {
    bool nan = false;
    bool infinity = false;
    std::int64_t element = 0;  // the first of them
  };
  static Found scan(const HostTensor& tensor);
  Value storage_of(Value value) const;
  void check_inputs(const Node& node);
  void check_results(const Node& node);

  Program& program_;
  std::vector<NodeId> nodes_;           // by launch
  std::vector<bool> holds_infinity_;    // by value: an expected one
  std::vector<bool> is_input_checked_;  // by value
  std::optional<std::string> first_;
};

}  // namespace ridgepoint
