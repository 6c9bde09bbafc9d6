// What mixes the tokens of a layer in place of attention, or beside it: the gated delta rule of Qwen3-Next, Mamba-2's
// state space, and the short convolution of LFM2. Their graphs, parameters and sizes; transformer.h says which layers
// have them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/core/truncated_normal.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// attention_and_state_space: both read the block's input, and their results are added (Falcon-H1). none: the layer is
// its feed-forward network alone (Nemotron-H).
enum class Mixer : std::uint8_t {
  attention,
  gated_delta,
  state_space,
  short_convolution,
  attention_and_state_space,
  none
};

// How a state space's result y and its gate z are joined. none: y silu(z). norm_of_product: the RMS norm of that.
// product_of_norm: the RMS norm of y, times silu(z).
enum class GateNorm : std::uint8_t { none, norm_of_product, product_of_norm };

// Sizes and rules of all mixers of a model other than attention.
struct StateMixer {
  std::int64_t key_heads = 0;   // of q and k; a state space calls them groups
  std::int64_t heads = 0;       // of v
  std::int64_t key_size = 0;    // of a head of q and k; a state space calls it the state
  std::int64_t value_size = 0;  // of a head of v
  std::int64_t kernel = 4;      // the tokens that a short convolution sees
  bool convolution_bias = false;
  bool input_bias = false;  // of the projections of the input
  bool output_bias = false;
  GateNorm gate_norm = GateNorm::none;  // of a state space
  std::int64_t norm_groups = 1;         // that its norm takes by themselves
  double norm_epsilon = 1e-6;
  double least_step = 0, most_step = 0;                 // limits of a state space's steps; 0: none
  double input_scale = 1, output_scale = 1;             // factors of a state space (Falcon-H1): of input and result,
  std::array<double, 5> part_scales = {1, 1, 1, 1, 1};  // and of what the input is projected to

  bool operator==(const StateMixer&) const = default;
};

// The state space of attention_and_state_space, or the mixer itself.
Mixer state_mixer_of(Mixer mixer);
bool attends(Mixer mixer);
bool has_state(Mixer mixer);  // whether StateMixer says its sizes

// A part of what a mixer projects its input to, as published files have it: `width` rows from `first` on of the
// parameter MODULE_proj.weight. The convolution, conv.weight [width,kernel], takes the module of several parts that are
// convolved as a whole.
struct MixerPart {
  std::string module;
  std::int64_t width = 0;
  bool is_convolved = false;
  std::int64_t first = 0;
};
// In the order of published files. The widths of a short convolution are d_model.
std::vector<MixerPart> input_parts(Mixer mixer, const StateMixer& sizes, std::int64_t d_model);
// A parameter of one dimension beside these and output_proj.
struct MixerVector {
  std::string name;
  std::int64_t size = 0;
};
std::vector<MixerVector> mixer_vectors(Mixer mixer, const StateMixer& sizes);
// The width that the output projection reads.
std::int64_t mixed_width(Mixer mixer, const StateMixer& sizes, std::int64_t d_model);
// Throws Error (usage) when the count overflows.
std::int64_t mixer_parameters(Mixer mixer, const StateMixer& sizes, std::int64_t d_model);
// Throws Error (usage) for sizes that are not positive, heads or groups that do not divide the others, and limits that
// contradict each other.
void validate(Mixer mixer, const StateMixer& sizes);

// x [B S,D] -> [B S,D], for B sequences. The parameters are those above and output_proj.weight, under the current
// scope.
Value build_mixer(Graph& graph, Mixer mixer, Value x, const StateMixer& sizes, std::int64_t batch);

// Where training begins, for the parameters that have a begin of their own; `name` is that within the mixer.
std::optional<TruncatedNormal> mixer_distribution(std::string_view name, const TensorType& type);

}  // namespace ridgepoint
