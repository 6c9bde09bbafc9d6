// The devices that a web page has not. The null device of a card remains, and the reference, whose plans stand for
// those of PyTorch.

#include "backends/cpu/device.h"
#include "backends/cuda/device.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void refuse(std::string_view device) {
  throw_error(ErrorKind::unsupported,
              "a web page has no {} to plan for; name a card, as --card h100, or use the program", device);
}

}  // namespace

std::shared_ptr<Device> make_cpu_device(const DeviceOptions& /*options*/) { refuse("processor"); }
std::shared_ptr<Device> make_cuda_device(int /*ordinal*/, const DeviceOptions& /*options*/) { refuse("GPU"); }
int cuda_card_count() { return 0; }
bool has_usable_cuda_card() { return false; }

}  // namespace ridgepoint
