// --peers and --python: other engines that run the same model beside Ridgepoint.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridgepoint/run_config.h"
#include "run/peers/peer_benchmark.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

class PeerCommandLine {
 public:
  void add_to(CLI::App& app);
  bool is_given() const { return !peers_.empty(); }
  // Empty without --peers. Throws Error: usage for an unknown peer and for a configuration that peers cannot run,
  // otherwise if no Python with PyTorch is found.
  std::optional<PeerOptions> resolve(std::span<const RunConfig> configs) const;

 private:
  std::string peers_, python_;
};

}  // namespace ridgepoint::cli
