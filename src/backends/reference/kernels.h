// The kernels of the reference back end, one factory function for each class of op. All arithmetic is in double, and a
// result is rounded once, to the output's dtype. Operands may have any strides and dtypes, those of experts are dense.
// Ops that move, compare or convert integers are exact.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device/device.h"

namespace ridgepoint::reference {

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
std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec);
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_experts(const KernelSpec& spec);

}  // namespace ridgepoint::reference
