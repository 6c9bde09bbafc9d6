// Every way to compute a product and its epilogue, on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backends/cuda/card_harness.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"

namespace ridgepoint::testing {

// Operands, results and the workspace of a kernel on a GPU. Results and workspace hold NaN before.
class FusedProductRun {
 public:
  // Operand `shifted` begins one element later than the others, which begin where allocations do.
  FusedProductRun(Device& device, const KernelSpec& spec, const std::vector<Operand>& operands,
                  std::size_t workspace_bytes, std::size_t shifted = SIZE_MAX)
      : workspace_(device, std::vector(workspace_bytes + 1, std::byte{0xff})) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::size_t before = i == shifted ? size_bytes(operands[i].layout.dtype) : 0;
      std::vector<std::byte> bytes(before);
      bytes.insert(bytes.end(), operands[i].storage.begin(), operands[i].storage.end());
      inputs_.push_back(std::make_unique<DeviceCopy>(device, bytes));
      input_addresses_.push_back(inputs_.back()->address() + before);
    }
    for (const TensorLayout& layout : spec.outputs) {
      dtypes_.push_back(layout.dtype);
      const std::size_t bytes = static_cast<std::size_t>(layout.shape.elements()) * size_bytes(layout.dtype);
      outputs_.push_back(std::make_unique<DeviceCopy>(device, std::vector(bytes, std::byte{0xff})));
      output_addresses_.push_back(outputs_.back()->address());
    }
  }

  void launch(Kernel& kernel) {
    kernel.launch({input_addresses_.data(), output_addresses_.data(), workspace_.address()});
  }

  // As doubles, after synchronising.
  std::vector<std::vector<double>> results() const {
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::vector<std::byte> bytes = outputs_[i]->read();
      std::vector<double>& values = all.emplace_back();
      for (std::size_t at = 0; at < bytes.size(); at += size_bytes(dtypes_[i])) {
        values.push_back(load_element(dtypes_[i], bytes.data() + at));
      }
    }
    return all;
  }

 private:
  std::vector<DType> dtypes_;
  std::vector<std::unique_ptr<DeviceCopy>> inputs_, outputs_;
  std::vector<void*> input_addresses_, output_addresses_;
  DeviceCopy workspace_;
};

// Each way needs the workspace that is planned for the node, and so does the kernel that is made of them.
inline void expect_planned_workspace(const KernelSpec& spec, const cuda::EpiloguePlan& plan) {
  cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  const std::size_t planned = cuda::outline_hand_written(context.card(), spec).workspace_bytes;
  for (const auto& way : cuda::fused_product_ways(context, spec, &plan))
    EXPECT_EQ(way->workspace_bytes(), planned) << way->name();
  EXPECT_EQ(make_hand_written_kernel(context, spec)->workspace_bytes(), planned);
}

// The results of each way.
inline std::vector<std::vector<std::vector<double>>> results_of_ways(Device& device, cuda::CudaContext& context,
                                                                     const KernelSpec& spec,
                                                                     const cuda::EpiloguePlan& plan,
                                                                     const std::vector<Operand>& operands) {
  std::vector<std::vector<std::vector<double>>> all;
  for (const auto& way : cuda::fused_product_ways(context, spec, &plan)) {
    way->prepare();
    FusedProductRun run(device, spec, operands, way->workspace_bytes());
    run.launch(*way);
    device.synchronize();
    all.push_back(run.results());
  }
  return all;
}

}  // namespace ridgepoint::testing
