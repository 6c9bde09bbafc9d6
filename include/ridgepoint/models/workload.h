// The interface of a model, or of a single op, that the engine measures. Derive from Workload to measure your own
// model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/core/precision.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/core/truncated_normal.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/models/attention_variant.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

// The description of a workload in tables and records. A size that the workload does not have is 0.
struct WorkloadDescription {
  struct Model {
    std::string name = {};
    std::int64_t parameters = 0;
    std::int64_t layers = 0;
    std::int64_t d_model = 0;
    std::int64_t d_ff = 0;
    std::int64_t heads = 0;
    std::int64_t vocab = 0;
    std::int64_t kv_heads = 0;   // heads of keys and values
    std::int64_t head_size = 0;  // width of a head
    std::string family = {};     // of a Hugging Face model, as its config.json names it; empty for others
  } model;
  std::int64_t batch = 0;
  std::int64_t context = 0;  // tokens of a sequence; queries of a call of attention
  std::optional<AttentionVariant> attention = {};
};

struct TransformerConfig;

struct ParameterDeclaration {
  std::string name;
  TensorType type;
};

class Workload {
 public:
  virtual ~Workload() = default;

  virtual WorkloadDescription describe() const = 0;
  // The sizes and the layers of a decoder-only Transformer, which files of weights and PyTorch know too; null for
  // another workload.
  virtual const TransformerConfig* transformer() const { return nullptr; }

  // The forward graph: parameters are inputs of Role::parameter, the loss is an output of OutputRole::loss. A graph
  // without a loss is differentiated from its one floating result. `stop_point` may be called again and again.
  virtual Graph build(const StopPoint& stop_point = {}) const = 0;

  // The values of a parameter before the first step. By default: 1 for vectors, otherwise the deviation is
  // sqrt(2 / (rows + columns)) (Glorot).
  virtual TruncatedNormal initial_distribution(const ParameterDeclaration& parameter) const;
  // Those values; a seed gives the same values on every machine and every device.
  HostTensor initial_value(const ParameterDeclaration& parameter, std::uint64_t seed,
                           const StopPoint& stop_point = {}) const;

  // Writes every input that is neither a parameter nor state, after the parameters, which it may write too. Unless
  // overridden: floating data have deviation 1, integer data that index a table are uniform over it.
  virtual void write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point = {}) const;

  // The amount of work of one run and its unit, such as tokens. Rates are units per second.
  virtual std::int64_t units() const { return 1; }
  virtual std::string_view unit() const { return "runs"; }

  // The floating-point operations of one run, as docs/model.md counts them: they follow from the mode and from what is
  // trained, and how. Throws Error where 64 bits do not count them.
  virtual std::int64_t flops(const CompileOptions& options) const { return model_flops(build(), options); }
  std::int64_t flops(Mode mode) const { return flops(CompileOptions{.mode = mode}); }
};

// What options of the command line say of a workload.
struct WorkloadSettings {
  std::int64_t batch = 4;
  std::int64_t context = 256;
  AttentionVariant attention = AttentionVariant::composite;
  Precision precision = Precision::fp32;
  std::optional<std::int64_t> layers = {}, d_model = {}, d_ff = {}, heads = {}, vocab = {};  // where they are given
  const TransformerConfig* model = nullptr;  // that of --model, for a kind with that setting
};

// A workload that --workload names.
struct WorkloadKind {
  std::string name;
  std::vector<std::string> settings;  // the options that it has: batch, context, attention, model, layers, d-model, ...
  std::function<std::shared_ptr<const Workload>(const WorkloadSettings&)> make;
  Mode usual_mode = Mode::step;
};

// Adds a kind to transformer, attention and toy. Throws Error if there is one of that name.
void register_workload(WorkloadKind kind);
// Throws Error (usage) with the nearest name, or all names.
const WorkloadKind& workload_kind(std::string_view name);
std::vector<std::string_view> workload_names();

// In the order in which the graph declares them.
std::vector<ParameterDeclaration> parameters_of(const Graph& graph);
inline std::vector<ParameterDeclaration> parameters_of(const Workload& workload) {
  return parameters_of(workload.build());
}

// Writes every parameter and all data.
void initialise(Program& program, const Workload& workload, std::uint64_t seed, const StopPoint& stop_point = {});

}  // namespace ridgepoint
