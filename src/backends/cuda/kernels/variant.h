// A hand-written kernel is one row in the table of its op (kernels/<op>/), which hand_written.h reads. A new kernel is
// a __global__ function in a .cu file and a row; earlier rows are preferred.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/kernels/rates.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// The tile of one block and its launch resources. The op's table defines the units of `rows` and `columns`.
struct KernelTiling {
  int width = 0;  // the longest row that fits the kernel; 0: rows are not limited
  int rows = 1;
  int columns = 1;
  int threads = 0;
  int shared_bytes = 0;  // dynamic
};

struct KernelVariant {
  // The predicate: the op, the dtype of input number `operand`, which a fused node may lack, the GPU, and the
  // conditions of `supports_node` on shapes and attributes.
  Op op;
  DType dtype;
  int operand = 0;
  ComputeCapability least_capability = {8, 0};
  bool is_for_that_capability_alone = false;  // code for sm_90a runs on no later GPU
  bool (*supports_node)(const KernelVariant& variant, const Graph& graph, const Node& node) = nullptr;
  // Whether the kernel is the one for such a card among those that support the node; null: it is.
  bool (*is_preferred)(const KernelVariant& variant, const CardFacts& card, const Graph& graph,
                       const Node& node) = nullptr;

  KernelTiling tiling;
  const char* image = nullptr;          // the .cu file, as in kernel_images.h: "rope"
  const char* entry = nullptr;          // the __global__ function, and the kernel's name
  const char* scalar_entry = nullptr;   // for operands that cannot be read in vectors of 16 bytes
  const char* prepare_entry = nullptr;  // launched before `entry`
  const char* finish_entry = nullptr;   // launched after `entry`

  // A condition on the layouts of operands and results beyond `layout`; a node that fails it runs as a later variant,
  // which needs the same layouts. null: none.
  bool (*supports_layouts)(const KernelSpec& spec) = nullptr;

  // The layout that input number `index` needs; null: dense.
  OperandLayout (*layout)(const Graph& graph, const Node& node, int index) = nullptr;
  bool strided_results = false;  // as Device::writes_strided() says
  bool padded_rows = false;      // as Device::pads_rows() says
  // Bytes of device memory that a launch needs beside its operands, by the layouts and the card; null: none.
  std::size_t (*workspace_bytes)(const KernelVariant& variant, const CardFacts& card, const KernelSpec& spec) = nullptr;
  KernelRate rate = kRowRate;
  std::unique_ptr<Kernel> (*make)(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) = nullptr;

  bool supports(const ComputeCapability& capability) const {
    return is_for_that_capability_alone ? capability.number() == least_capability.number()
                                        : capability.number() >= least_capability.number();
  }
  // Whether the node can run as this kernel on such a GPU, and whether it does if no earlier row is a candidate.
  bool supports(const CardFacts& card, const Graph& graph, const Node& node) const;
  bool is_candidate(const CardFacts& card, const Graph& graph, const Node& node) const;
};

// KernelVariant::make of a kernel that is made of a variant.
template <class Made>
std::unique_ptr<Kernel> make_variant(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  return std::make_unique<Made>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
