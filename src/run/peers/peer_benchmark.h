// Times a workload with Ridgepoint and, in rounds that alternate with it, with PyTorch in processes of their own.
#pragma once

#include <optional>
#include <vector>

#include "run/machine/ceilings.h"
#include "run/peers/peer_files.h"
#include "run/peers/python.h"
#include "run/peers/torch_mode.h"
#include "run/session/session.h"

namespace ridgepoint {

struct PeerOptions {
  Python python;
  std::vector<TorchMode> modes;
};

// The record of Ridgepoint, then one for each mode. Before a peer is timed, its logits, loss and gradients for the same
// parameters and tokens must be within peer_tolerance() of Ridgepoint's; otherwise its status is error, and the message
// names the tensor that differs most. One peer at a time is in memory, beside Ridgepoint's program: each round runs one
// untimed iteration and then timed ones of the first, and the same of the other. time_ms of Ridgepoint has its
// iterations of all rounds. Empty if the watcher stopped the run.
std::optional<std::vector<Record>> measure_with_peers(const RunConfig& config, const PeerOptions& options,
                                                      PeerFiles& files, CeilingCache& ceilings,
                                                      const StepWatcher& watch = {});

// The largest relative L2 difference of a tensor that the rounding of `precision` explains.
double peer_tolerance(Precision precision);

}  // namespace ridgepoint
