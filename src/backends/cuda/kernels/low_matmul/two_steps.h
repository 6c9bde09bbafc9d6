// SwiGLU of a product, or its derivative, in two steps: the library's product, and one generated kernel for what
// follows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/kernels/low_matmul/swiglu_node.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// The bytes from the first to the last element, rounded so that buffers can follow one another.
std::size_t buffer_bytes(const TensorLayout& layout);

class TwoSteps : public Kernel {
 public:
  TwoSteps(CudaContext& context, const KernelSpec& spec, const SwigluNode& swiglu);

  std::string_view name() const override { return product_->name(); }
  std::string_view unfused_because() const override { return end_->unfused_because(); }
  std::size_t workspace_bytes() const override {
    return product_bytes_ + std::max(product_->workspace_bytes(), end_->workspace_bytes());
  }
  void prepare() override {
    product_->prepare();
    end_->prepare();
  }
  void launch(const LaunchArguments& arguments) override;

 private:
  // The memory of an operand of the generated kernel.
  struct Source {
    std::optional<std::size_t> input;  // absent: the product
    std::int64_t offset_bytes = 0;
  };

  void make_end(CudaContext& context, const KernelSpec& spec, NodeId product);
  TensorLayout add_source(const ValueLayout& operand, const KernelSpec& spec);

  Graph body_;
  std::optional<std::size_t> halves_;
  TensorLayout product_layout_;
  std::size_t product_bytes_ = 0;  // in the workspace
  std::unique_ptr<Kernel> product_, end_;
  std::vector<Source> sources_;       // of end_'s operands
  std::vector<std::size_t> results_;  // of the node, for end_'s results
  std::vector<void*> inputs_, outputs_;
};

}  // namespace ridgepoint::cuda
