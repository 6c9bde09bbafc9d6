// PyTorch in a process of its own: finds a Python interpreter that can import PyTorch, reads the modes of --peers, and
// runs the process with the same model. Requests and answers are one JSON object a line (bench/peers/pytorch/peer.py).
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
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/models/run_config.h"

namespace ridgepoint {

struct Python {
  std::string path;           // as it was named; looked up in PATH without a slash
  std::string torch_version;  // "2.11.0+cu130"
};

// `named`, if it is not empty; otherwise the environment variable RIDGEPOINT_PYTHON, if it is set; otherwise the first
// of python3 in PATH and /usr/bin/python3 that can import torch. Importing takes seconds; `stop_point` is called
// meanwhile. Throws Error with the interpreters that were tried, why each failed, and what to do.
Python find_python(const std::string& named, const StopPoint& stop_point = {});

// eager; compile: torch.compile as it is; the others: torch.compile with the mode of that name.
enum class TorchMode : std::uint8_t { eager, compile, reduce_overhead, max_autotune, max_autotune_no_cudagraphs };
std::string_view name(TorchMode mode);

// The modes of a comma list of "torch:MODE" and "torch", which stands for the first four, each once. Throws Error
// (usage) with the nearest name.
std::vector<TorchMode> torch_modes_from(std::string_view text);

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

  // Makes the model of `config` and reads its tensors. `threads`: CPU threads. Returns the implementation of attention:
  // sdpa or naive.
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
