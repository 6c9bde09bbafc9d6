// A process that runs the same model elsewhere, and the requests that it answers: one JSON object a line, in both
// directions (bench/peers/pytorch/peer.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/processes/child_process.h"
#include "core/text/json.h"
#include "ridgepoint/run_config.h"
#include "run/peers/python.h"
#include "run/peers/torch_mode.h"

namespace ridgepoint {

// safetensors: the fp32 parameters by name; int64 `inputs` and `targets` [batch, context] and the fp32 results that the
// peer should have, `logits`, and with a backward `loss` and `grad.NAME`.
struct PeerTensors {
  std::filesystem::path weights;
  std::filesystem::path expected;
};

struct PeerCheck {
  double first_call_ms = 0;                   // of the function that is timed, its compilation included
  std::map<std::string, double> differences;  // relative L2, by tensor; NaN if an element is not finite
};

struct PeerTimes {
  std::vector<double> host_ms;    // one iteration by the host's clock, synchronisation included
  std::vector<double> device_ms;  // by the device's clock
  std::optional<std::int64_t> peak_allocated_bytes;
  std::optional<std::int64_t> peak_reserved_bytes;
};

// All members throw Error: unsupported, out_of_memory, or a failure with the peer's message. Waiting for an answer
// calls the stop point.
class PeerProcess {
 public:
  PeerProcess(const Python& python, const std::filesystem::path& script, StopPoint stop_point);

  // Makes the model of `config` and reads its tensors. `threads`: of the processor. Returns the implementation of
  // attention: sdpa or naive.
  std::string build(const RunConfig& config, TorchMode mode, const PeerTensors& tensors, std::int64_t threads);
  // Calls the function that is timed, without an update of parameters, and compares its results.
  PeerCheck check();
  // Runs and times iterations, updates included.
  PeerTimes run(std::int64_t iterations);

 private:
  Json ask(const Json& request);

  StopPoint stop_point_;
  ChildProcess process_;
};

}  // namespace ridgepoint
