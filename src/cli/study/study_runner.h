// Runs the command lines of a study's plan one after another, each in a process of its own, and keeps every row as soon
// as it is there. What the folder has already is not run again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "study/folder.h"
#include "study/plan/plan.h"

namespace ridgepoint::cli {

class Progress;

class StudyRunner {
 public:
  explicit StudyRunner(const StudyFolder& folder) : folder_(folder) {}

  // Throws Interrupted after Ctrl-C; finished rows are in the folder then. A command line that fails is noted in the
  // folder's log, and the others run.
  void run(std::span<const StudyPartPlan> plan);

 private:
  struct Task;
  std::vector<Task> open_tasks(std::span<const StudyPartPlan> plan) const;
  StudyLogEntry run(const Task& task, const std::function<void(std::int64_t rows)>& show) const;
  static void show(const Task& task, std::int64_t done, Progress& progress);

  const StudyFolder& folder_;
};

}  // namespace ridgepoint::cli
