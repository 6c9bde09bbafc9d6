#include "cli/options/peer_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "cli/commands/command.h"
#include "cli/options/choices.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "models/transformer.h"

namespace ridgepoint::cli {

void PeerCommandLine::add_to(CLI::App& app) {
  CLI::Option* peers = app.add_option("--peers", peers_,
                                      "time PyTorch beside Ridgepoint: torch, or a list of torch:eager, torch:compile, "
                                      "torch:reduce-overhead, torch:max-autotune, torch:max-autotune-no-cudagraphs")
                           ->type_name("NAMES")
                           ->group("Peers");
  offer(*peers,
        {"torch", "torch:eager", "torch:compile", "torch:reduce-overhead", "torch:max-autotune",
         "torch:max-autotune-no-cudagraphs"},
        Takes::list);
  app.add_option("--python", python_,
                 "the Python that has PyTorch [RIDGEPOINT_PYTHON, else python3 in PATH, else /usr/bin/python3]")
      ->type_name("FILE")
      ->group("Peers");
}

std::optional<PeerOptions> PeerCommandLine::resolve(std::span<const RunConfig> configs) const {
  require(!peers_.empty() || python_.empty(), "--python needs --peers");
  if (peers_.empty()) return std::nullopt;
  const std::vector<TorchMode> modes = parse_option("--peers", peers_, torch_modes_from);
  for (const RunConfig& config : configs) {
    require(config.device == "cpu" || config.device.starts_with("cuda"),
            fmt::format("--peers: PyTorch has no device '{}'; use cpu or cuda", config.device));
    require(!config.device_options.memory_limit_bytes.has_value(),
            "--peers: --memory-limit would limit Ridgepoint alone; leave it out");
    require(config.compile.checkpoint == Checkpoint::none,
            "--peers: PyTorch runs without activation checkpointing; leave --checkpoint out");
    const CompileOptions& compile = config.compile;
    require(compile.precision != Precision::fp8, "--peers: PyTorch has no autocast to fp8; compare --dtype bf16");
    require(compile.optimizer.kind == OptimizerOptions().kind && compile.optimizer.is_usual() &&
                compile.master_weights && compile.frozen.empty() && !compile.lora && compile.accumulate == 1,
            "--peers: PyTorch trains all parameters with AdamW as it comes; leave the options of Training out");
    const auto* model = dynamic_cast<const Transformer*>(config.workload.get());
    require(model == nullptr || model->config().architecture == Architecture(),
            fmt::format("--peers: PyTorch runs the model of docs/model.md alone, in any size; '{}' is of another "
                        "architecture",
                        config.workload->describe().model.name));
    require(!config.detect_anomaly, "--peers: --detect-anomaly makes times that are not valid; leave it out");
  }
  return PeerOptions{find_python(python_, stop_if_interrupted), modes};
}

}  // namespace ridgepoint::cli
