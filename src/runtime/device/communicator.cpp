#include "runtime/device/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/text/units.h"

namespace ridgepoint {

std::string describe_collective(const KernelSpec& spec) {
  std::size_t bytes = 0;
  const std::size_t first_sent = spec.inputs.size() - spec.outputs.size();  // ops/collectives.h
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    const TensorLayout& sent = spec.inputs[first_sent + i];
    bytes +=
        std::max(TensorType{sent.dtype, sent.shape}.bytes(), TensorType{sent.dtype, spec.outputs[i].shape}.bytes());
  }
  std::string text = fmt::format("{} of {}", name(spec.node.op), format_bytes(bytes));
  if (spec.node.attributes.contains("bucket"))
    text += fmt::format(" (bucket {})", spec.node.attributes.get<std::int64_t>("bucket"));
  return text;
}

std::string describe_hang(std::string_view collective, double limit_seconds) {
  return fmt::format("{} did not end within {:g} s: another rank hangs, has ended or computes something else",
                     collective, limit_seconds);
}

}  // namespace ridgepoint
