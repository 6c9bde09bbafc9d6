// Trains a model on a text in several precisions, from the same weights and on the same tokens, and keeps the losses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ridgepoint/core/precision.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct LossCurveOptions {
  std::vector<Precision> precisions;
  std::int64_t steps = 200;
  std::uint64_t seed = 0;  // of the weights, and of the places in the text
};

struct LossCurve {
  Precision precision = Precision::fp32;
  std::vector<double> losses;  // of each step, before its update
};

// A token is a byte of the text. Each step takes sequences from places of the text that the seed determines. The
// workload is a language model: it has inputs "inputs" and "targets" [batch, context] and at least 256 tokens. `watch`
// is called before each step; if it returns false, the result has the curves that are finished. Throws Error for a text
// that is shorter than a sequence, and (unsupported) if the device lacks a precision.
std::vector<LossCurve> measure_loss_curves(
    const Workload& workload, std::string_view text, const LossCurveOptions& options,
    const std::shared_ptr<Device>& device,
    const std::function<bool(Precision precision, std::int64_t step)>& watch = {});

}  // namespace ridgepoint
