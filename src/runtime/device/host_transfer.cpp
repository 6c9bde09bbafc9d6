#include "runtime/device/host_transfer.h"

#include <cstring>
#include <vector>

namespace ridgepoint {
namespace {

class HostTransfer : public Kernel {
 public:
  explicit HostTransfer(const KernelSpec& spec) : name_(ridgepoint::name(spec.node.op)) {
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      copies_.push_back({copied_operand(spec.node, i), spec.graph.type(spec.node.outputs[i]).bytes()});
  }

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < copies_.size(); ++i)
      std::memcpy(arguments.outputs[i], arguments.inputs[copies_[i].operand], copies_[i].bytes);
  }

 private:
  struct Copy {
    std::size_t operand, bytes;
  };
  std::string_view name_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec) { return std::make_unique<HostTransfer>(spec); }

}  // namespace ridgepoint
