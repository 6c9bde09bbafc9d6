// The kernels of the CUDA back end for a GPU, as far as a plan needs them: by the GPU's properties alone, without a
// driver. Only the algorithm of a product is chosen by measuring on the GPU, within a workspace that a rule fixes
// (LtProblem::workspace_bytes), so a plan for a GPU that is not there has its memory to the byte.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/driver/context.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace cuda {

class CardChoices final : public KernelChoices {
 public:
  explicit CardChoices(CardFacts card) : card_(std::move(card)) {}

  std::string name() const override { return card_.name; }
  DeviceFacts facts() const override;
  bool has_kernel(const Graph& graph, const Node& node) const override;
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override;
  bool writes_strided(const Graph& graph, const Node& node) const override;
  bool pads_rows(const Graph& graph, const Node& node) const override;
  bool runs_update_beside(const Graph& graph, const Node& node) const override;
  KernelOutline outline(const KernelSpec& spec) override;

 private:
  CardFacts card_;
};

}  // namespace cuda

// The choices for a described GPU; can_describe_card() must hold for it.
std::shared_ptr<KernelChoices> make_described_card(const CardDescription& description);

}  // namespace ridgepoint
