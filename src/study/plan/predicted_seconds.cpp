#include "study/plan/predicted_seconds.h"

#include <algorithm>

namespace ridgepoint {
namespace {

// Shares of the measured rates that whole iterations reach: on a GPU small kernels do not fill the device.
constexpr double kCpuShare = 0.7;
constexpr double kGpuShare = 0.4;
constexpr double kLaunchSeconds = 1e-5;
constexpr double kLaunchesOfLayer = 60;  // forward and backward

constexpr double kScoreBytes = 4;
// Of one matrix of scores for each of the 8 matrices of a call.
double score_bytes(std::int64_t sequence) {
  return 8 * kScoreBytes * static_cast<double>(sequence) * static_cast<double>(sequence);
}

double rate(const StudyMachine& machine, DType dtype) {
  const auto found = machine.flops_per_second.find(dtype);
  const auto fp32 = machine.flops_per_second.find(DType::fp32);
  const double flops = found != machine.flops_per_second.end()  ? found->second
                       : fp32 != machine.flops_per_second.end() ? fp32->second
                                                                : 1e10;
  return flops * (machine.is_gpu() ? kGpuShare : kCpuShare);
}

}  // namespace

double start_seconds(const StudyMachine& machine) { return machine.is_gpu() ? 2.5 : 1; }

double iteration_seconds(const StudyMachine& machine, TransformerConfig model, Mode mode, std::int64_t batch,
                         std::int64_t context, DType dtype) {
  model.context = context;
  const auto flops = static_cast<double>(Transformer(model, batch).flops(mode));
  const double launches = machine.is_gpu() ? static_cast<double>(model.layers) * kLaunchesOfLayer * kLaunchSeconds : 0;
  return std::max(flops / rate(machine, dtype), launches);
}

double initial_seconds(const StudyMachine& machine, const TransformerConfig& model) {
  constexpr double kParametersPerSecond = 5e7;
  const auto parameters = static_cast<double>(parameter_count(model));
  return machine.is_gpu() ? 0.3 + parameters / 5e9 : parameters / kParametersPerSecond;
}

bool scores_exceed_memory(const StudyMachine& machine, std::int64_t sequence) {
  return kScoreMatricesOfMemory * score_bytes(sequence) > static_cast<double>(machine.memory_bytes);
}

double attention_seconds(const StudyMachine& machine, std::int64_t width, std::int64_t sequence, bool stores_scores,
                         const StudyIterations& iterations) {
  constexpr double kPasses = 24;  // over the scores, forward and backward
  if (stores_scores && scores_exceed_memory(machine, sequence)) return 0;
  const double scores = score_bytes(sequence) / kScoreBytes;
  const double flops = (4 + 4 + 10) * scores * static_cast<double>(width);
  const double seconds = flops / rate(machine, DType::fp32) +
                         (stores_scores ? kPasses * score_bytes(sequence) / std::max(machine.bytes_per_second, 1e9)
                                        : scores * 5e-10 * (machine.is_gpu() ? 0.01 : 1));
  return seconds * static_cast<double>(iterations.total()) + 0.05;
}

}  // namespace ridgepoint
