// The configuration of a run, for every experiment: workload, device and options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/core/network.h"
#include "ridgepoint/memory/allocator_kind.h"
#include "ridgepoint/models/plan_as.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

class ProcessGroup;
struct PackedMatrix;
struct ScheduleSection;

// Given values of parameters, instead of random ones.
struct GivenWeights {
  std::string source;  // the name of the file, for the record
  // Returns fp32 of the declared shape. May be called more than once for a parameter.
  std::function<HostTensor(const ParameterDeclaration&)> read;
  std::vector<ParameterDeclaration> constants = {};  // of the graph, of which `read` has the values, too
  // The bytes of a packed weight, of dtype packed, where the file has them; empty for other weights.
  std::function<std::optional<HostTensor>(const std::string& parameter, const PackedMatrix&)> read_packed = {};
};

struct RunConfig {
  std::string device = "cpu";  // as open_device() takes it
  DeviceOptions device_options = {};
  std::shared_ptr<const Workload> workload = nullptr;
  CompileOptions compile = {.mode = Mode::step};
  std::optional<AllocatorKind> allocator = {};  // default_allocator(compile.level) without one
#define RIDGEPOINT_COMPILE_SETTING(...)
#define RIDGEPOINT_RUN_SETTING(type, member, initial) type member = initial;
#include "ridgepoint/ops/run_settings.def"
#undef RIDGEPOINT_COMPILE_SETTING
#undef RIDGEPOINT_RUN_SETTING
  std::int64_t profiled_steps = 0;  // under the profiler, after the timed ones
  // The timed iterations end after this time, but not before the third; the warm-up ends after half of it. Empty: all
  // iterations run.
  std::optional<double> budget_seconds = {};
  // The timed iterations end when the 95 % confidence interval of their median is this narrow (half its width, as a
  // share of the median), or after until_limit_seconds. `steps` is their maximum then.
  std::optional<double> until = {};
  double until_limit_seconds = 60;
  bool time_phases = false;     // bench: also the time of each phase of an iteration
  bool run_anyway = false;      // run even if the plan does not fit into the available memory
  bool detect_anomaly = false;  // the run fails with the first NaN or infinity that a node makes
  std::optional<GivenWeights> weights = {};
  // The ranks of compile.parallel (src/runtime/device/communicator.h); null where the run has one.
  std::shared_ptr<ProcessGroup> group = nullptr;
  // What of compile.parallel plans choose: the sharding, and the size of buckets
  // (src/predict/choose_parallel.h).
  bool choose_sharding = false, choose_bucket = false;
  std::optional<Network> network = {};  // between ranks, for predicted times; empty: the links of the card
  PlanAs plan_as = PlanAs::ridgepoint;  // plan: whose memory is predicted
  bool keeps_output = false;            // of PyTorch: its loop holds the output of the iteration before

  // The schedule is chosen so that the run fits into this memory (src/run/session/fit_into.h).
  std::optional<std::size_t> fit_into_bytes = {};
  // The workload with another batch; null where it has none.
  std::function<std::shared_ptr<const Workload>(std::int64_t batch)> workload_of_batch = {};
  std::shared_ptr<const ScheduleSection> schedule = nullptr;  // as it was chosen

  // Whether the plan chooses the policy of each block.
  bool chooses_checkpoints() const {
    return compile.checkpoint == Checkpoint::automatic && compile.block_tensors.empty();
  }
  bool chooses_offload() const { return compile.offload == Offload::automatic; }
  bool chooses_parallel() const { return compile.parallel.is_parallel() && (choose_sharding || choose_bucket); }
};

// The fp32 value of a parameter before the first step: given, or random from the seed.
HostTensor initial_value(const RunConfig& config, const ParameterDeclaration& parameter,
                         const StopPoint& stop_point = {});

}  // namespace ridgepoint
