#include "runtime/device/host_transfer.h"

#include <cstring>

#include "ops/layout.h"
#include "runtime/device/offload_file.h"

namespace ridgepoint {
namespace {

class HostTransfer : public Kernel {
 public:
  explicit HostTransfer(const KernelSpec& spec)
      : name_(ridgepoint::name(spec.node.op)),
        to_host_(spec.node.op == Op::copy_to_host),
        file_(spec.file),
        bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < bytes_.size(); ++i) copy(arguments.outputs[i], arguments.inputs[i], bytes_[i]);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (file_ == nullptr) {
      std::memcpy(to, from, bytes);
    } else if (to_host_) {
      file_->write(to, {static_cast<const std::byte*>(from), bytes});
    } else {
      file_->read(from, {static_cast<std::byte*>(to), bytes});
    }
  }

  std::string_view name_;
  bool to_host_;
  OffloadFile* file_;
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
