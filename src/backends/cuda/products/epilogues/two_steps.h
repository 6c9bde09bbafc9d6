// A product and what follows it in two steps: the product of the matmul's kernel, and one kernel for all other nodes of
// the body, which is generated, or hand-written where they are one composite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "ops/layout.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// The bytes from the first to the last element, rounded so that buffers can follow one another.
std::size_t buffer_bytes(const TensorLayout& layout);

// The two nodes and where their operands and results lie. Needs no GPU.
class ProductSteps {
 public:
  // The body must have a product_of(), whose result has rows. What follows it may read views of it. A result may be a
  // concat of what follows and of columns of the product.
  explicit ProductSteps(const KernelSpec& spec);
  ProductSteps(const ProductSteps&) = delete;
  ProductSteps& operator=(const ProductSteps&) = delete;

  KernelSpec product() const { return {body_, body_.node(product_), product_inputs_, {&product_layout_, 1}}; }
  KernelSpec epilogue() const { return {body_, epilogue_, inputs_, outputs_}; }
  // Of the values that are no results of the node.
  std::size_t buffers_bytes() const { return buffers_bytes_; }
  std::size_t workspace_bytes(const CardFacts& card) const;

  // An operand or result of a step: of the node, or in the workspace. In bytes.
  struct Place {
    enum class Of : std::uint8_t { inputs, results, workspace } of = Of::workspace;
    std::size_t index = 0;
    std::size_t offset = 0;
    void* address(const LaunchArguments& arguments) const;
  };
  const Place& product_place() const { return product_place_; }
  const std::vector<Place>& sources() const { return sources_; }  // of epilogue()
  const std::vector<Place>& results() const { return results_; }  // of epilogue()

 private:
  void make_epilogue();
  std::optional<ValueLayout> layout_within(Value result, const ValueLayout& whole, Value value) const;
  Place place_result(Value value, const KernelSpec& spec, TensorLayout& layout);
  Place find_source(Value value, const KernelSpec& spec);
  ValueLayout layout_of(Value value, const KernelSpec& spec) const;

  Graph body_;
  NodeId product_;
  Node epilogue_;
  std::vector<TensorLayout> product_inputs_, inputs_, outputs_;
  TensorLayout product_layout_;
  Place product_place_;
  std::vector<Place> sources_, results_;
  std::size_t buffers_bytes_ = 0;
};

class TwoSteps : public Kernel {
 public:
  // Needs `least_workspace_bytes` or more.
  TwoSteps(CudaContext& context, const KernelSpec& spec, std::size_t least_workspace_bytes);

  std::string_view name() const override { return product_->name(); }
  std::string_view unfused_because() const override { return epilogue_->unfused_because(); }
  std::size_t workspace_bytes() const override;
  void prepare() override;
  void launch(const LaunchArguments& arguments) override;

 private:
  ProductSteps steps_;
  std::size_t least_workspace_bytes_;
  std::unique_ptr<Kernel> product_, epilogue_;
  std::vector<void*> inputs_, outputs_;  // of epilogue_
};

}  // namespace ridgepoint::cuda
