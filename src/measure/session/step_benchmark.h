// Times forward, forward + backward or a whole training step of the Transformer and returns the record of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "measure/machine/ceiling_cache.h"
#include "models/transformer.h"
#include "ridgepoint/program.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

// Where parameters come from that are not made from the seed.
struct GivenWeights {
  std::string source;  // for the record: the file
  // fp32, of the type declared. May be asked more than once for a parameter.
  std::function<HostTensor(const ParameterDeclaration&)> read;
};

struct StepConfig {
  std::string device = "cpu";  // as open_device() takes it
  DeviceOptions device_options;
  TransformerConfig model;
  std::int64_t batch = 4;
  Mode mode = Mode::step;
  std::string dtype = "fp32";
  std::string compile = "off";  // as compile_from_name() takes it
  std::string checkpoint = "off";
  std::int64_t warmup = 5;
  std::int64_t steps = 10;
  std::int64_t seed = 0;
  bool run_anyway = false;      // although the plan does not fit into what memory is available
  bool detect_anomaly = false;  // the run fails with the first NaN or infinity that a node makes
  std::optional<GivenWeights> weights = {};
};

// What a parameter holds before the first step: fp32, given or made from the seed.
HostTensor initial_value(const StepConfig& config, const ParameterDeclaration& parameter, const StopPoint& stop_point);
// Writes the parameters, given or made from the seed, and the model's constants.
void write_parameters(Program& program, const StepConfig& config, const StopPoint& stop_point);

// What becomes of the model's forward graph. Throws Error (usage) for an unknown dtype or way of compiling.
CompileOptions compile_options(const StepConfig& config);

// Where a run stands: iteration `index` of `count` is about to start (the last three stages have iterations).
struct StepProgress {
  enum class Stage : std::uint8_t { planning, initialising, measuring_ceiling, warmup, timing, profiling };
  Stage stage = Stage::planning;
  std::int64_t index = 0;
  std::int64_t count = 0;
};
std::string_view name(StepProgress::Stage stage);

// Called before every stage and iteration, and again and again while a large model is made and initialised; false
// stops the run there.
using StepWatcher = std::function<bool(const StepProgress&)>;

// What else is to be done with the program, once its iterations are timed; false stops the run there.
using StepFollowUp = std::function<bool(Program&)>;

// One run of a fresh program, everything it took released again. A run whose plan does not fit is out of memory before
// anything is made. A device that computes nothing runs nothing: its record has the plan's memory and no times. Never
// throws for what befalls the run itself: that becomes the record's status; a loss that is no number is an error,
// though what was measured stands. Empty when the watcher stopped it. A ceiling not yet in `ceilings` is measured after
// the timed iterations, so that it does not warm the machine up for a study of warm-ups.
std::optional<Record> measure_step(const StepConfig& config, CeilingCache& ceilings, const StepWatcher& watch = {},
                                   const StepFollowUp& then = {});

}  // namespace ridgepoint
