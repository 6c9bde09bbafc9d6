// The device whose results tests compare others with: every primitive op as plain double-precision loops on one thread,
// for any strides and dtypes. Composite ops have no kernel here and are decomposed. The code is written to be clear
// rather than fast; a tiny model takes seconds.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// `options.memory_limit_bytes` bounds the bytes allocated at one time; the default is this machine's memory.
std::shared_ptr<Device> make_reference_device(const DeviceOptions& options = {});

}  // namespace ridgepoint

namespace ridgepoint::reference {

// The kernels of the reference back end, one factory function for each class of op. All arithmetic is in double, and a
// result is rounded once, to the output's dtype. Operands may have any strides and dtypes, those of experts and
// recurrences are dense.
// Ops that move, compare or convert integers are exact.
class ReferenceKernel : public Kernel {
 public:
  explicit ReferenceKernel(const KernelSpec& spec)
      : name_(std::string(ridgepoint::name(spec.node.op)) + "_reference") {}
  std::string_view name() const override { return name_; }

 private:
  std::string name_;
};

std::unique_ptr<Kernel> make_elementwise(const KernelSpec& spec);
std::unique_ptr<Kernel> make_iota(const KernelSpec& spec);
std::unique_ptr<Kernel> make_reduction(const KernelSpec& spec);
std::unique_ptr<Kernel> make_matmul(const KernelSpec& spec);
std::unique_ptr<Kernel> make_dequantise(const KernelSpec& spec);
std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec);
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_experts(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_attention(const KernelSpec& spec);

}  // namespace ridgepoint::reference
