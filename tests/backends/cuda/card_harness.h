// Runs one kernel on the GPU on operands with chosen layouts, as backends/cpu/kernel_harness.h does on the host.
#pragma once

#include "backends/cpu/kernel_harness.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::testing {

// Memory of a device that holds a copy of host bytes.
class DeviceCopy {
 public:
  DeviceCopy(Device& device, std::span<const std::byte> bytes) : device_(device), bytes_(bytes.size()) {
    address_ = device.allocate_memory(bytes_);
    if (address_ == nullptr) throw Error("the GPU has no memory for a test's operands");
    device.copy_to_device(address_, bytes.data(), bytes_);
  }
  ~DeviceCopy() { device_.release_memory(address_, bytes_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  std::byte* address() const { return static_cast<std::byte*>(address_); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    device_.copy_to_host(bytes.data(), address_, bytes_);
    return bytes;
  }

 private:
  Device& device_;
  std::size_t bytes_;
  void* address_ = nullptr;
};

// On the GPU. Output and workspace are filled with a pattern and end in a guard.
class CardRun : public OneKernel {
 public:
  CardRun(Device& device, Op op, std::vector<Operand> operands, Attributes attributes = {})
      : OneKernel(device, op, std::move(operands), std::move(attributes)) {
    launch(device);
  }

 private:
  void launch(Device& device) {
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<void*> inputs;
    for (const Operand& operand : operands_) {
      copies.push_back(std::make_unique<DeviceCopy>(device, operand.storage));
      inputs.push_back(operand.layout.immediate ? nullptr
                                                : copies.back()->address() + static_cast<std::size_t>(operand.offset) *
                                                                                 size_bytes(operand.layout.dtype));
    }
    const DeviceCopy result(device, std::vector(output.data.size() + kGuardBytes, kGuard));
    const DeviceCopy workspace(device, std::vector(kernel_->workspace_bytes() + kGuardBytes, kGuard));
    void* address = result.address();
    kernel_->launch({inputs.data(), &address, workspace.address()});
    device.synchronize();
    const std::vector<std::byte> bytes = result.read();
    std::copy_n(bytes.begin(), output.data.size(), output.data.begin());
    expect_guard(bytes, "its output");
    expect_guard(workspace.read(), "its workspace");
  }
};

}  // namespace ridgepoint::testing
