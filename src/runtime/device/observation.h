// An observer that watches a program for as long as the observation lives, also if a run throws.
#pragma once

#include "ridgepoint/program.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

class Observation {
 public:
  // Both must outlive the observation.
  Observation(Program& program, LaunchObserver& observer) : program_(program) { program_.observe(&observer); }
  ~Observation() { program_.observe(nullptr); }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  Program& program_;
};

}  // namespace ridgepoint
