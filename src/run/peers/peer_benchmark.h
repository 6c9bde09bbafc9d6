// Times a workload with Ridgepoint and, in alternating rounds, with PyTorch in processes of their own. A peer reads
// files in a temporary folder: its scripts, the parameters, and Ridgepoint's results.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/files/temporary_folder.h"
#include "run/machine/ceilings.h"
#include "run/peers/peer_process.h"
#include "run/session/session.h"

namespace ridgepoint {

class PeerFiles {
 public:
  // Writes the scripts.
  PeerFiles();

  std::filesystem::path script() const { return folder_ / "peer.py"; }
  // Runs the configuration once, forward or forward and backward, and writes its results. Writes the parameters, too,
  // unless the last call wrote the same ones. Throws Error.
  PeerTensors write(const RunConfig& config, const StepWatcher& watch);

 private:
  void write_weights(const RunConfig& config, const StopPoint& stop_point);
  void write_results(RunConfig config, const StepWatcher& watch);

  TemporaryFolder folder_;
  PeerTensors tensors_;
  std::string written_weights_;  // what the file of parameters holds; empty while there is none
};

struct PeerOptions {
  Python python;
  std::vector<TorchMode> modes;
};

// The record of Ridgepoint, then one for each mode. Before a peer is timed, its logits, loss and gradients for the same
// parameters and tokens must be within peer_tolerance() of Ridgepoint's; otherwise its status is error, and the message
// names the tensor that differs most. One peer at a time is in memory, beside Ridgepoint's program. In each round, each
// of the two runs one untimed iteration and then timed ones. time_ms of Ridgepoint has its iterations of all rounds.
// Empty if the watcher stopped the run.
std::optional<std::vector<Record>> measure_with_peers(const RunConfig& config, const PeerOptions& options,
                                                      PeerFiles& files, CeilingCache& ceilings,
                                                      const StepWatcher& watch = {});

// The largest relative L2 difference of a tensor that the rounding of `precision` explains.
double peer_tolerance(Precision precision);

}  // namespace ridgepoint
