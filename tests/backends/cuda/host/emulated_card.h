// The GPU of fake_card.cpp with hand-written kernels that compute (host_kernels.cmake), as a device for whole graphs:
// nodes without a hand-written kernel run on this processor, in the same memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/cuda/device.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/hand_written.h"
#include "backends/reference/reference_device.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/forwarding_device.h"

namespace ridgepoint::testing {

class EmulatedCard : public ForwardingDevice {
 public:
  EmulatedCard() : ForwardingDevice(make_cuda_device(0)) {}

  std::string_view kind() const override { return "emulated"; }
  void fill_random(void* address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                   std::uint64_t stream, const StopPoint& stop_point) override {
    inner_->fill_random(address, dtype, count, distribution, stream, stop_point);
  }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    return is_hand_written(graph, node) || primitives_->has_kernel(graph, node);
  }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return device_of(graph, node).operand_layout(graph, node, index);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override {
    return device_of(graph, node).writes_strided(graph, node);
  }
  bool pads_rows(const Graph& graph, const Node& node) const override {
    return device_of(graph, node).pads_rows(graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return device_of(spec.graph, spec.node).make_kernel(spec);
  }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override { return host_->make_timer(points); }

 private:
  static bool is_hand_written(const Graph& graph, const Node& node) {
    return cuda::has_hand_written(cuda::CudaContext::of_card(0).card(), graph, node);
  }
  Device& device_of(const Graph& graph, const Node& node) const {
    return is_hand_written(graph, node) ? *inner_ : *host_;
  }

  std::shared_ptr<Device> host_ = open_device("cpu");
  std::shared_ptr<Device> primitives_ = make_reference_device();  // composites are decomposed
};

}  // namespace ridgepoint::testing
