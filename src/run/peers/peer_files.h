// The files that a peer reads, in a temporary folder: its scripts, the parameters, and Ridgepoint's own results.
#pragma once

#include <filesystem>
#include <string>

#include "core/files/temporary_folder.h"
#include "run/peers/peer_process.h"
#include "run/session/session.h"

namespace ridgepoint {

class PeerFiles {
 public:
  // Writes the scripts.
  PeerFiles();

  std::filesystem::path script() const { return folder_ / "peer.py"; }
  // Runs the configuration once, forward or forward and backward, and writes its results. Writes the parameters too,
  // unless the last call was for the same ones. Throws Error.
  PeerTensors write(const RunConfig& config, const StepWatcher& watch);

 private:
  void write_weights(const RunConfig& config, const StopPoint& stop_point);
  void write_results(RunConfig config, const StepWatcher& watch);

  TemporaryFolder folder_;
  PeerTensors tensors_;
  std::string written_weights_;  // what the file of parameters holds; empty while there is none
};

}  // namespace ridgepoint
