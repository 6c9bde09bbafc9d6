// The options of compilation: how the passes (src/passes/pass_list.def) rewrite a forward graph into the graph that
// runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/core/base_weights.h"
#include "ridgepoint/core/offload.h"
#include "ridgepoint/core/precision.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/adapters.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "ridgepoint/ops/parallel.h"

namespace ridgepoint {

// What one run computes. forward: the results of the model. training_forward: the same, and every value that backward
// would read stays in memory until the next run begins. forward_backward: the loss and the gradient of every parameter.
// step: loss, gradients and the update of the parameters by the optimizer.
enum class Mode : std::uint8_t { forward, training_forward, forward_backward, step };
inline constexpr std::array kAllModes = {Mode::forward, Mode::training_forward, Mode::forward_backward, Mode::step};
constexpr bool runs_backward(Mode mode) { return mode == Mode::forward_backward || mode == Mode::step; }
// forward training_forward forward_backward step
std::string_view name(Mode mode);
// The inverse of name(). Throws Error (usage) naming the nearest.
Mode mode_from_name(std::string_view text);

// How much is done for speed. off: one kernel for each op. fuse: attention written in primitive ops becomes the
// attention op, and groups of elementwise ops, softmax and norms become one kernel. full: also, all launches of a run
// are captured and repeated as one unit (a CUDA graph), from the third run on. During the second run, which is
// captured, no other thread may use the GPU through this library.
enum class Compile : std::uint8_t { off, fuse, full };
inline constexpr std::array kAllCompiles = {Compile::off, Compile::fuse, Compile::full};
// off fuse full
std::string_view name(Compile compile);
// The inverse of name(). Throws Error (usage) naming the nearest.
Compile compile_from_name(std::string_view text);

// Which activations are saved for backward, and which are computed again there (phase recompute).
//   none       every activation that backward reads is saved
//   attention  scores, softmax and masks of attention are computed again; `flash` attention has none
//   selective  within blocks, only the results of products and of residual sums are saved, but not attention's scores
//   block      only the input of each segment is saved: of checkpoint_segment blocks that follow one another
//   nested     only the input of each segment; before its backward, the inputs of its blocks are computed again, and
//              before that of each block what is in it: twice in all, but for the last block of a segment
//   automatic  each block has the choices of CompileOptions::block_tensors; one without an entry there the policy of
//              CompileOptions::block_checkpoints, none where that has no entry for it either
// A block is a module whose name ends in a number, such as layers.3.
enum class Checkpoint : std::uint8_t { none, attention, selective, block, nested, automatic };
inline constexpr std::array kAllCheckpoints = {Checkpoint::none,  Checkpoint::attention, Checkpoint::selective,
                                               Checkpoint::block, Checkpoint::nested,    Checkpoint::automatic};
// Whether the policy groups blocks in segments.
constexpr bool has_segments(Checkpoint policy) { return policy == Checkpoint::block || policy == Checkpoint::nested; }
// none attention selective block nested auto
std::string_view name(Checkpoint checkpoint);
// The inverse of name(). Throws Error (usage) naming the nearest.
Checkpoint checkpoint_from_name(std::string_view text);

// The policy of each block by the name of its module, {"layers.3", Checkpoint::block}; none of them is automatic.
using BlockCheckpoints = std::map<std::string, Checkpoint, std::less<>>;

// What becomes of a tensor of the forward phase until backward reads it.
enum class Saving : std::uint8_t { keep, recompute };
// By block, and by the names of its tensors (src/passes/memory/block_tensors.h).
using BlockTensorSavings = std::map<std::string, std::map<std::string, Saving, std::less<>>, std::less<>>;

// Values that stay readable after a run in modes that do not need them.
struct KeepOptions {
  bool results = false;        // backward, step: the model's results beside the loss (mode forward always has them)
  bool gradients = false;      // step: outputs "grad.NAME" (mode backward always has them)
  bool activations = false;    // outputs "activation.SCOPE": the last value of each module of forward and loss
  bool gradient_norm = false;  // step: the output "gradient_norm" (always there with CompileOptions::clip_norm)
  // step of several micro-batches with "gradient_norm": the output "micro_gradient_norm", of the gradients of this
  // rank's first micro-batch alone.
  bool micro_gradient_norm = false;
};

// Dynamic loss scaling as torch.amp.GradScaler does it.
struct LossScalingOptions {
  double initial_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps in a row with finite gradients before the scale grows
};

// The rows of a chunk of logits that the pass chunk_loss chooses. At 2048 rows the product that sums the gradient of
// the head's weight does 512 operations for each byte of the sums that it reads and writes, more than the 206 (H200) to
// 295 (H100) at which a product in bf16 is bound by arithmetic.
inline constexpr std::int64_t kLossChunkRows = 2048;

struct PassResult {
  std::string_view name;
  bool changed = false;
  double milliseconds = 0;
};

struct CompileOptions {
  Mode mode = Mode::forward;
  Precision precision = Precision::fp32;  // fp16 scales its loss
  std::vector<Op> force_low = {};         // ops that compute in bf16 or fp16 although autocast keeps them in fp32
  std::vector<Op> decompose = {};         // composites that are decomposed even where the device has a kernel
  Compile level = Compile::off;
  Checkpoint checkpoint = Checkpoint::none;
  std::int64_t checkpoint_segment = 1;      // the blocks of a segment, of policies that have segments
  BlockCheckpoints block_checkpoints = {};  // of Checkpoint::automatic
  // Of Checkpoint::automatic: a tensor without an entry in an entry of its block is computed again, as all else in the
  // block that something kept leads to.
  BlockTensorSavings block_tensors = {};
  KeepOptions keep = {};
  // Rows of logits (tokens) whose loss and gradient are computed at a time; 0: all. Empty: all, or kLossChunkRows where
  // the logits are a large share of the memory (the pass chunk_loss).
  std::optional<std::int64_t> loss_chunk_rows = {};
  // The loss has z_loss times the mean square of the log-sum-exps of the logits as well (Chowdhery et al. 2022).
  double z_loss = 0;
  OptimizerOptions optimizer = {};
  // step: gradients are multiplied by min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does. The
  // norm is that of the gradients of all parameters and ranks, unscaled; the output "gradient_norm" has it.
  std::optional<double> clip_norm = {};
  // step: a step whose norm is not finite updates nothing, and "optimizer.skipped_steps" counts it. With fp16, loss
  // scaling has its own rule for such steps.
  bool skips_nonfinite = false;
#define RIDGEPOINT_COMPILE_SETTING(type, member, initial) type member = initial;
#define RIDGEPOINT_RUN_SETTING(...)
#include "ridgepoint/ops/run_settings.def"
#undef RIDGEPOINT_COMPILE_SETTING
#undef RIDGEPOINT_RUN_SETTING
  std::optional<LoraOptions> lora = {};
  // What the files of the model say of weights that are packed; weights that it lacks have this program's order.
  std::vector<PublishedWeight> published_weights = {};
  // Of one rank: what lies in the memory of the host. Transfers bring it to the device ahead of its use. States need
  // mode step; activations need a backward phase.
  Offload offload = Offload::none;
  std::optional<std::size_t> host_memory_limit_bytes = {};  // of what lies there; more is an error
  // Of Offload::optimizer: the folder for a file in which the states lie instead; empty: none.
  std::string offload_folder = {};
  ParallelOptions parallel = {};
  LossScalingOptions loss_scaling = {};

  std::vector<std::string> skip = {};   // names of passes that do not run
  std::string until = {};               // the last pass that runs, by name; empty: all run
  bool verify = verifies_by_default();  // verify() after every pass that changed something
  StopPoint stop_point = {};            // called before every pass
  // Called after every pass, with the graph that the pass left.
  std::function<void(const PassResult&, const Graph&)> after_pass = {};

  static bool verifies_by_default();  // true in a debug build of the library
};

// The names of all passes, in the order in which they run. A pass that runs twice is listed twice.
std::vector<std::string_view> pass_names();

// The last pass that adds to the graph what training computes. Later passes do not change any value.
std::string_view last_training_pass();

// The graph of options.mode for any device: runs the passes up to last_training_pass(). They add the inputs
// "optimizer.step" and "optimizer.STATE.NAME" (mode step; the states of optimizer_list.def), "optimizer.loss_scale"
// (fp16), and the outputs "grad.NAME". A graph that already has a backward phase is returned unchanged. Throws Error
// (usage) for an unknown name in `skip` or `until`, or for a mode that needs a gradient of a graph that has neither a
// loss nor a floating result.
Graph training_graph(Graph forward, const CompileOptions& options);

struct ParameterCounts {
  std::int64_t all = 0;  // adapters included
  std::int64_t trainable = 0;
};
// The parameters that a run of a forward graph has. Throws Error as training_graph() does.
ParameterCounts count_parameters(Graph forward, const CompileOptions& options);

// The floating-point operations of one run of a forward graph, by the rules of docs/model.md. They are counted on the
// fp32 training graph of options.mode and what it trains, after dead code and common subexpressions are eliminated;
// precision, level and checkpointing do not matter. Throws Error when the count overflows 64 bits.
std::int64_t model_flops(Graph forward, const CompileOptions& options);

}  // namespace ridgepoint
