// What a hand-written kernel is to the host: one row of its op's table (kernels/<op>/), read by hand_written.h. A new
// kernel is a __global__ function in a .cu and a row here; a row that comes first is preferred.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// What one block computes, and what a launch gives it. `rows` and `columns` are counted in what the op's table says.
struct KernelTiling {
  int width = 0;  // the widest row that the kernel holds; 0: it holds none
  int rows = 1;
  int columns = 1;
  int threads = 0;
  int shared_bytes = 0;  // dynamic
};

struct KernelVariant {
  // The predicate: the op, the dtype of the input number `operand`, the card, and what the op's own function asks of
  // shapes and attributes.
  Op op;
  DType dtype;
  int operand = 0;
  ComputeCapability least_capability = {8, 0};
  bool (*accepts)(const KernelVariant& variant, const Graph& graph, const Node& node) = nullptr;

  KernelTiling tiling;
  const char* image = nullptr;          // its .cu, as kernel_images.h names it: "rope/rope"
  const char* entry = nullptr;          // the __global__ function; its name is the kernel's
  const char* scalar_entry = nullptr;   // in its place for operands that cannot be read in vectors of 16 bytes
  const char* prepare_entry = nullptr;  // launched before it
  const char* finish_entry = nullptr;   // launched after it

  // How input number `index` has to lie; null: all dense.
  OperandLayout (*layout)(const Graph& graph, const Node& node, int index) = nullptr;
  std::unique_ptr<Kernel> (*make)(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) = nullptr;

  // Whether the node can run as this kernel on such a card.
  bool applies(const CardFacts& card, const Graph& graph, const Node& node) const;
};

}  // namespace ridgepoint::cuda
