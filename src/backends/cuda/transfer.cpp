#include "backends/cuda/transfer.h"

#include <utility>
#include <vector>

#include "backends/cuda/driver/event.h"
#include "runtime/device/host_transfer.h"

namespace ridgepoint::cuda {
namespace {

class Transfer : public Kernel {
 public:
  Transfer(CudaContext& context, const KernelSpec& spec)
      : context_(context),
        name_(ridgepoint::name(spec.node.op)),
        to_host_(spec.node.op == Op::copy_to_host),
        stream_(context.copy_stream(to_host_ ? CudaContext::CopyStream::to_host : CudaContext::CopyStream::from_host)),
        begin_(context),
        end_(context),
        bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    const CudaContext::Scope scope(context_);
    begin_.record(context_.stream());
    begin_.make_wait(stream_);
    for (std::size_t i = 0; i < bytes_.size(); ++i) copy(arguments.outputs[i], arguments.inputs[i], bytes_[i]);
    end_.record(stream_);
    is_running_ = true;
  }

  void wait() override {
    if (!std::exchange(is_running_, false)) return;
    const CudaContext::Scope scope(context_);
    end_.make_wait(context_.stream());
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    const Driver& driver = context_.driver();
    if (to_host_) {
      check(driver.cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_), "copy to the host");
    } else {
      check(driver.cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream_), "copy from the host");
    }
  }

  CudaContext& context_;
  std::string_view name_;
  bool to_host_;
  CUstream stream_;
  StreamPoint begin_, end_;
  std::vector<std::size_t> bytes_;
  bool is_running_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_transfer(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<Transfer>(context, spec);
}

}  // namespace ridgepoint::cuda
