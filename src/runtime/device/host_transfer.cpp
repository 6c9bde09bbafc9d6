#include "runtime/device/host_transfer.h"

#include <cstring>

#include "ops/layout.h"

namespace ridgepoint {
namespace {

class HostTransfer : public Kernel {
 public:
  explicit HostTransfer(const KernelSpec& spec)
      : name_(ridgepoint::name(spec.node.op)), bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < bytes_.size(); ++i) std::memcpy(arguments.outputs[i], arguments.inputs[i], bytes_[i]);
  }

 private:
  std::string_view name_;
  std::vector<std::size_t> bytes_;
};

}  // namespace

std::vector<std::size_t> bytes_of_copies(const KernelSpec& transfer) {
  std::vector<std::size_t> bytes;
  for (const Value result : transfer.node.outputs) bytes.push_back(storage_type(transfer.graph, result).bytes());
  return bytes;
}

std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec) { return std::make_unique<HostTransfer>(spec); }

}  // namespace ridgepoint
