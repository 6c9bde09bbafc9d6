// Products that end in SwiGLU or in its derivative, on Hopper: the host side of swiglu_matmul_wgmma.cu.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/kernels/low_matmul/parameters.h"
#include "backends/cuda/kernels/low_matmul/swiglu_node.h"
#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// How blocks divide the product: a tile of each warpgroup, and the tiles of a cluster.
struct SwigluTiling {
  int rows = 0;
  int columns = 0;  // of b; forward: half of them gate, half of them up
  int cluster_rows = 1;
  int cluster_columns = 1;
  bool operator==(const SwigluTiling&) const = default;

  int cluster_blocks() const { return cluster_rows * cluster_columns; }
  std::string to_text() const;  // 128x128_2x1
};

// A fused node of this form with its layouts, without addresses. Needs no GPU.
class SwigluPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernel does not support the layouts: x [T,K] by rows, forward w [K,2F] by columns and backward w
  // [K,F] by rows, gate, up and results by rows, which all begin at multiples of 16 bytes.
  static std::optional<SwigluPlan> of(const SwigluNode& node, const KernelSpec& spec);

  std::vector<SwigluTiling> candidates() const;
  std::string function_name(const SwigluTiling& tiling) const;  // fused_swiglu_forward_128x128_2x1_bf16
  // All on which a choice depends, except the GPU and versions.
  std::string key() const;

  LowMatmul parameters(const SwigluTiling& tiling, int multiprocessors) const;
  int blocks(const SwigluTiling& tiling, int multiprocessors) const;
  int shared_bytes(const SwigluTiling& tiling) const;
  // An operand or result as the kernel's maps have it. `offset` in elements.
  struct Mapped {
    TensorMapShape shape;
    bool is_result = false;
    std::size_t index = 0;
    std::int64_t offset = 0;
  };
  // Of a, b and c, then forward: up, hidden; backward: gate, up and the gradient of up.
  std::vector<Mapped> maps(const SwigluTiling& tiling) const;
  const SwigluNode& node() const { return node_; }

 private:
  SwigluNode node_;
  DType dtype_ = DType::bf16;
  std::int64_t x_row_ = 0, w_line_ = 0;  // elements between rows of x, and between lines of w
  std::vector<std::int64_t> input_rows_, result_rows_;
};

// Whether the node is SwiGLU of a product, or its derivative, whose rows are whole vectors.
bool has_swiglu_forward(const KernelVariant& variant, const Graph& graph, const Node& node);
bool has_swiglu_backward(const KernelVariant& variant, const Graph& graph, const Node& node);

OperandLayout swiglu_operand_layout(const Graph& graph, const Node& node, int index);
std::size_t swiglu_workspace_bytes(const KernelVariant& variant, const CardFacts& card, const KernelSpec& spec);

// All kernels for the node: first the library's product with a generated kernel after it, then those of candidates().
std::vector<std::unique_ptr<Kernel>> swiglu_ways(CudaContext& context, const KernelSpec& spec,
                                                 const std::optional<SwigluPlan>& plan);

// The faster of this kernel's tilings and of the library's product with a generated kernel after it, measured once and
// kept as matmul/algorithm.h does.
std::unique_ptr<Kernel> make_swiglu(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant);

}  // namespace ridgepoint::cuda
