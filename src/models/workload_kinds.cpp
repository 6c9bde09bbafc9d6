#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "core/text/nearest.h"
#include "models/attention_problem.h"
#include "models/toy_model.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {
namespace {

// One call of attention with the heads and the width of a layer of the model.
std::shared_ptr<const Workload> attention_of(const WorkloadSettings& settings) {
  const TransformerConfig& model = *settings.model;
  const bool is_wider = model.architecture.head_size > 0;
  return std::make_shared<AttentionCall>(
      AttentionProblem{.batch = settings.batch,
                       .heads = model.heads,
                       .d_model = is_wider ? model.heads * model.head_size() : model.d_model,
                       .queries = settings.context,
                       .keys = settings.context,
                       .kv_heads = model.architecture.kv_heads,
                       .causal = true,
                       .variant = settings.attention,
                       .precision = settings.precision,
                       .model = model.name == "custom" ? model.name : fmt::format("attention of {}", model.name)});
}

// A list whose names stay where they are.
std::deque<WorkloadKind>& kinds() {
  static std::deque<WorkloadKind> all = {
      {.name = "transformer",
       .settings = {"model", "config-override", "layers", "d-model", "d-ff", "heads", "vocab", "context", "batch",
                    "attention"},
       .make = [](const WorkloadSettings& s) { return std::make_shared<Transformer>(*s.model, s.batch); }},
      {.name = "attention",
       .settings = {"model", "config-override", "d-model", "heads", "context", "batch", "attention"},
       .make = attention_of,
       .usual_mode = Mode::forward_backward},
      {.name = "toy", .settings = {}, .make = [](const WorkloadSettings&) { return std::make_shared<ToyModel>(); }}};
  return all;
}

}  // namespace

void register_workload(WorkloadKind kind) {
  if (std::ranges::find(kinds(), kind.name, &WorkloadKind::name) != kinds().end())
    throw Error(fmt::format("there is a workload '{}'; give yours another name", kind.name));
  kinds().push_back(std::move(kind));
}

const WorkloadKind& workload_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &WorkloadKind::name);
  if (found == kinds().end()) refuse_name(name, "'{}' is unknown", workload_names());
  return *found;
}

std::vector<std::string_view> workload_names() {
  std::vector<std::string_view> names;
  for (const WorkloadKind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace ridgepoint
