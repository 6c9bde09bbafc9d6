#include "backends/cuda/kernels/hand_written.h"

#include <fmt/format.h>

#include "backends/cuda/kernels/adamw/adamw.h"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/cross_entropy/cross_entropy.h"
#include "backends/cuda/kernels/embedding/embedding.h"
#include "backends/cuda/kernels/rope/rope.h"
#include "ir/queries.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {

bool has_hand_written(const CardFacts& card, const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::embedding:
    case Op::embedding_backward:
      return true;
    case Op::rope:
      return has_rope(graph, node);
    case Op::attention:
    case Op::attention_backward:
      return has_attention(card, graph, node);
    case Op::cross_entropy:
    case Op::adamw:
      return graph.type(node.inputs[0]).dtype == DType::fp32;
    case Op::cross_entropy_backward:
      return graph.type(node.inputs[1]).dtype == DType::fp32;  // the logits
    default:
      return false;
  }
}

OperandLayout hand_written_layout(const Graph& graph, const Node& node, int index) {
  const bool reads_any =
      node.op == Op::cross_entropy_backward || (node.op == Op::rope && !constant_behind(graph, node.inputs[0]));
  return index == 0 && reads_any ? OperandLayout::any : OperandLayout::dense;
}

std::unique_ptr<Kernel> make_hand_written_kernel(CudaContext& context, const KernelSpec& spec) {
  switch (spec.node.op) {
    case Op::embedding:
      return make_embedding_kernel(context, spec);
    case Op::embedding_backward:
      return make_embedding_backward_kernel(context, spec);
    case Op::rope:
      return make_rope_kernel(context, spec);
    case Op::attention:
      return make_attention_kernel(context, spec);
    case Op::attention_backward:
      return make_attention_backward_kernel(context, spec);
    case Op::cross_entropy:
      return make_cross_entropy_kernel(context, spec);
    case Op::cross_entropy_backward:
      return make_cross_entropy_backward_kernel(context, spec);
    case Op::adamw:
      return make_adamw_kernel(context, spec);
    default:
      throw Error(fmt::format("there is no hand-written CUDA kernel for '{}'; ask has_hand_written() first",
                              ridgepoint::name(spec.node.op)),
                  ErrorKind::unsupported);
  }
}

}  // namespace ridgepoint::cuda
