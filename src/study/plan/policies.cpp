#include "study/plan/topics.h"

namespace ridgepoint::plan {

void add_policies(Planner& planner) {
  const DType dtype = planner.machine().is_gpu() ? DType::bf16 : DType::fp32;
  std::vector<StudyCommand> compiled;
  for (const std::string& model : planner.compared_models()) {
    compiled.push_back(planner.bench({.model = model,
                                      .modes = {Mode::forward, Mode::step},
                                      .dtypes = {dtype},
                                      .more = {"--compile", "off,full"},
                                      .repeats = 2}));
  }
  planner.add_each(StudyPart::compiled_model, "Whole models, compiled and not", 0.08, std::move(compiled));
  planner.add_each(StudyPart::checkpointing, "Checkpoint policies", 0.1,
                   {planner.bench({.model = planner.large_model(),
                                   .modes = {Mode::step},
                                   .dtypes = {dtype},
                                   .more = {"--checkpoint", "none,attention,selective,block"},
                                   .repeats = 4})});
}

}  // namespace ridgepoint::plan
