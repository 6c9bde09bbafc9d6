#include "runtime/device/host_transfer.h"

#include <cstring>

namespace ridgepoint {
namespace {

class HostTransfer : public Kernel {
 public:
  explicit HostTransfer(const KernelSpec& spec) : name_(ridgepoint::name(spec.node.op)), copies_(copies_of(spec)) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < copies_.size(); ++i)
      std::memcpy(arguments.outputs[i], arguments.inputs[copies_[i].operand], copies_[i].bytes);
  }

 private:
  std::string_view name_;
  std::vector<TransferCopy> copies_;
};

}  // namespace

std::vector<TransferCopy> copies_of(const KernelSpec& transfer) {
  const std::vector<Value>& results = transfer.node.outputs;
  const std::size_t first = transfer.node.op == Op::copy_to_host ? results.size() : 0;
  std::vector<TransferCopy> copies;
  for (const Value result : results) copies.push_back({first + copies.size(), transfer.graph.type(result).bytes()});
  return copies;
}

std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec) { return std::make_unique<HostTransfer>(spec); }

}  // namespace ridgepoint
