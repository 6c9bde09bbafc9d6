#include "backends/cuda/driver/stream_branch.h"

#include <string>

#include "ridgepoint/core/error.h"

namespace ridgepoint::cuda {
namespace {

class KernelBeside : public Kernel {
 public:
  KernelBeside(CudaContext& context, std::unique_ptr<Kernel> kernel)
      : kernel_(std::move(kernel)), branch_(context, context.side_stream(CudaContext::SideStream::updates)) {
    if (kernel_->workspace_bytes() > 0)
      throw Error("kernel '" + std::string(name()) + "' has a workspace, so it cannot run beside others");
  }

  std::string_view name() const override { return kernel_->name(); }
  void prepare() override { kernel_->prepare(); }
  void launch(const LaunchArguments& arguments) override {
    branch_.run([&](CUstream stream) {
      const CudaContext::OnStream on_stream(stream);
      for (Kernel* earlier : arguments.after) earlier->wait();
      kernel_->launch(arguments);
    });
  }
  void wait() override { branch_.join(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  StreamBranch branch_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_beside(CudaContext& context, std::unique_ptr<Kernel> kernel) {
  return std::make_unique<KernelBeside>(context, std::move(kernel));
}

}  // namespace ridgepoint::cuda
