// From a model's forward graph to the graph that runs: the options of the one list of passes
// (src/passes/pass_list.def).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/precision.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// What one run computes. forward: the results of the model. backward: the loss and the gradient of every parameter.
// step: the same, and AdamW updates the parameters.
enum class Mode : std::uint8_t { forward, backward, step };
inline constexpr std::array kAllModes = {Mode::forward, Mode::backward, Mode::step};
// forward backward step
std::string_view name(Mode mode);
// The inverse of name(). Throws Error (usage) naming the nearest.
Mode mode_from_name(std::string_view text);

// How much the graph is rewritten for speed. off: not at all. fuse: groups of nodes for which the device has one kernel
// become one node; attention in plain ops becomes the attention op.
enum class Compile : std::uint8_t { off, fuse };
inline constexpr std::array kAllCompiles = {Compile::off, Compile::fuse};
// off fuse
std::string_view name(Compile compile);
// The inverse of name(). Throws Error (usage) naming the nearest.
Compile compile_from_name(std::string_view text);

// Which activations are kept between forward and backward, and which are computed again. off: all that backward reads
// are kept.
enum class Checkpoint : std::uint8_t { off };

inline constexpr std::array kAllCheckpoints = {Checkpoint::off};

std::string_view name(Checkpoint checkpoint);
// The inverse of name(). Throws Error (usage) naming the nearest.
Checkpoint checkpoint_from_name(std::string_view text);

// Values that stay readable after a run in modes that do not need them.
struct KeepOptions {
  bool results = false;      // backward, step: the model's results beside the loss (mode forward always has them)
  bool gradients = false;    // step: outputs "grad.NAME" (mode backward always has them)
  bool activations = false;  // outputs "activation.SCOPE": the last value of each module of forward and loss
};

// Dynamic loss scaling as torch.amp.GradScaler does it.
struct LossScalingOptions {
  double initial_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps in a row with finite gradients before the scale grows
};

struct PassResult {
  std::string_view name;
  bool changed = false;
  double milliseconds = 0;
};

struct CompileOptions {
  Mode mode = Mode::forward;
  Precision precision = Precision::fp32;  // fp16 scales its loss
  std::vector<Op> force_low = {};         // ops that compute in the low type although autocast keeps them in fp32
  std::vector<Op> decompose = {};         // composites that are decomposed although the device has a kernel for them
  Compile level = Compile::off;
  KeepOptions keep = {};
  AdamWOptions optimizer = {};
  LossScalingOptions loss_scaling = {};

  std::vector<std::string> skip = {};   // passes left out, by name
  std::string until = {};               // the last pass that runs, by name; empty: all run
  bool verify = verifies_by_default();  // verify() after every pass that changed something
  StopPoint stop_point = {};            // called before every pass
  // Called after every pass, with the graph that the pass left.
  std::function<void(const PassResult&, const Graph&)> after_pass = {};

  static bool verifies_by_default();  // true in a debug build of the library
};

// The names of all passes, in the order in which they run. A name that stands twice is one pass that runs twice.
std::vector<std::string_view> pass_names();

// The pass after which the graph is a training graph: what comes later keeps its values.
std::string_view last_training_pass();

// The graph that trains or infers, before anything is said of a device: the passes up to the optimizer. Inputs
// "optimizer.step", "optimizer.first_moment.NAME" and "optimizer.second_moment.NAME" (mode step) and
// "optimizer.loss_scale" (fp16) are added to the model's; outputs are the model's and "grad.NAME". A graph that already
// has a backward phase is left as it is. Throws Error (usage) for an unknown name in `skip` or `until`, or for a mode
// that needs a gradient of a graph that has neither a loss nor a floating result.
Graph training_graph(Graph forward, const CompileOptions& options);

// The floating-point operations of one run of a forward graph in `mode`, by the rules of docs/model.md: of its training
// graph in fp32, without nodes that nobody reads or that compute the same. Throws Error where 64 bits do not count
// them.
std::int64_t model_flops(Graph forward, Mode mode);

}  // namespace ridgepoint
