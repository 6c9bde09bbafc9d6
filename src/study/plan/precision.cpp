#include "study/plan/topics.h"

namespace ridgepoint::plan {

void add_precision(Planner& planner) {
  planner.add_each(StudyPart::accumulation, "Sums of a thousand terms", 0.01,
                   {{.arguments = {"precision"}, .rows = 0, .seconds = 0.1}});
  std::vector<StudyCommand> autocast;
  for (const char* dtype : {"fp16", "bf16"})
    autocast.push_back({.arguments = {"precision", "--autocast", dtype}, .rows = 0, .seconds = 0.1});
  planner.add_each(StudyPart::autocast, "Types under autocast", 0.01, std::move(autocast));
  const Words error = {"precision", "--error", "--dtype", "fp32,bf16,fp16", "--device", planner.machine().device};
  planner.add_each(StudyPart::precision_error, "Errors against double precision", 0.03,
                   {{.arguments = error, .rows = 0, .seconds = 1}});
}

}  // namespace ridgepoint::plan
