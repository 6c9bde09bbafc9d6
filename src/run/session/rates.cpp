#include "run/session/rates.h"

#include "predict/cards/datasheet.h"

namespace ridgepoint {

void fill_rates(Record& record, const Workload& workload) {
  Record::TrainingStep& step = *record.training_step;
  const double seconds = step.time_ms.mean / 1e3;
  if (!(seconds > 0)) return;
  if (workload.unit() == "tokens")
    step.tokens_per_second = static_cast<double>(workload.units()) * static_cast<double>(record.accumulate) *
                             static_cast<double>(step.parallel.data.value_or(1)) / seconds;
  if (!step.flops_per_step) return;
  step.achieved_flops_per_second = static_cast<double>(*step.flops_per_step) / seconds;
  const Datasheet* sheet = find_datasheet(record.device.name);
  if (sheet == nullptr) return;
  if (const std::optional<double> rate = datasheet_flops_per_second(*sheet, name(record.dtype))) {
    step.mfu = *step.achieved_flops_per_second / *rate;
  }
}

void fill_ceiling(Record& record, const std::optional<double>& ceiling_flops_per_second) {
  Record::TrainingStep& step = *record.training_step;
  step.ceiling_flops_per_second = ceiling_flops_per_second;
  if (ceiling_flops_per_second && step.achieved_flops_per_second) {
    step.ceiling_share = *step.achieved_flops_per_second / *ceiling_flops_per_second;
  }
}

}  // namespace ridgepoint
