#include "backends/cuda/transfer.h"

#include <vector>

#include "backends/cuda/driver/stream_branch.h"
#include "runtime/device/host_transfer.h"

namespace ridgepoint::cuda {
namespace {

class Transfer : public Kernel {
 public:
  Transfer(CudaContext& context, const KernelSpec& spec)
      : context_(context),
        name_(ridgepoint::name(spec.node.op)),
        to_host_(spec.node.op == Op::copy_to_host),
        branch_(context,
                context.side_stream(to_host_ ? CudaContext::SideStream::to_host : CudaContext::SideStream::from_host)),
        bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    branch_.run([&](CUstream stream) {
      for (std::size_t i = 0; i < bytes_.size(); ++i)
        copy(arguments.outputs[i], arguments.inputs[i], bytes_[i], stream);
    });
  }

  void wait() override { branch_.join(); }

 private:
  void copy(void* to, const void* from, std::size_t bytes, CUstream stream) const {
    if (bytes == 0) return;
    const Driver& driver = context_.driver();
    if (to_host_) {
      check(driver.cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream), "copy to the host");
    } else {
      check(driver.cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream), "copy from the host");
    }
  }

  CudaContext& context_;
  std::string_view name_;
  bool to_host_;
  StreamBranch branch_;
  std::vector<std::size_t> bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_transfer(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<Transfer>(context, spec);
}

}  // namespace ridgepoint::cuda
