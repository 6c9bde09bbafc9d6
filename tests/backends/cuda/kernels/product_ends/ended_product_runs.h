// Every way to compute a product and its end, on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backends/cuda/card_harness.h"
#include "backends/cuda/kernels/product_ends/ended_product.h"

namespace ridgepoint::testing {

// The results of each way, as doubles. Outputs and workspaces hold NaN before.
inline std::vector<std::vector<std::vector<double>>> results_of_ways(Device& device, cuda::CudaContext& context,
                                                                     const KernelSpec& spec, const cuda::EndPlan& plan,
                                                                     const std::vector<Operand>& operands) {
  std::vector<std::unique_ptr<DeviceCopy>> inputs, outputs;
  std::vector<void*> input_addresses, output_addresses;
  for (const Operand& operand : operands) {
    inputs.push_back(std::make_unique<DeviceCopy>(device, operand.storage));
    input_addresses.push_back(inputs.back()->address());
  }
  std::vector<std::vector<std::vector<double>>> all;
  for (const auto& way : cuda::ended_product_ways(context, spec, &plan)) {
    way->prepare();
    outputs.clear();
    output_addresses.clear();
    for (const TensorLayout& layout : spec.outputs) {
      const std::size_t bytes = static_cast<std::size_t>(layout.shape.elements()) * size_bytes(layout.dtype);
      outputs.push_back(std::make_unique<DeviceCopy>(device, std::vector(bytes, std::byte{0xff})));
      output_addresses.push_back(outputs.back()->address());
    }
    const DeviceCopy workspace(device, std::vector(way->workspace_bytes() + 1, std::byte{0xff}));
    way->launch({input_addresses.data(), output_addresses.data(), workspace.address()});
    device.synchronize();
    std::vector<std::vector<double>>& results = all.emplace_back();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const DType dtype = spec.outputs[i].dtype;
      const std::vector<std::byte> bytes = outputs[i]->read();
      std::vector<double>& values = results.emplace_back();
      for (std::size_t at = 0; at < bytes.size(); at += size_bytes(dtype)) {
        values.push_back(load_element(dtype, bytes.data() + at));
      }
    }
  }
  return all;
}

}  // namespace ridgepoint::testing
