// Combines generated sources to one translation unit, with unique names of entries.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backends/cuda/generator/source.h"

namespace ridgepoint::testing {

// The name of entry `launch` of source `number` in a batch.
inline std::string batch_name(std::size_t number, std::size_t launch) {
  return fmt::format("kernel_{}_{}", number, launch);
}

// The kernels of a source without the device functions with which all sources begin.
inline std::string_view kernels_of(const cuda::GeneratedSource& source) {
  const std::size_t head = cuda::generated_intrinsics().size() + cuda::generated_prelude().size();
  std::string_view kernels = std::string_view(source.text).substr(std::min(head, source.text.size()));
  for (const std::string& codes : {cuda::generated_codes(), cuda::generated_float8()}) {
    if (kernels.starts_with(codes)) kernels.remove_prefix(codes.size());
  }
  return kernels;
}

inline std::string renamed_kernels(const cuda::GeneratedSource& source, std::size_t number) {
  std::string text(kernels_of(source));
  std::size_t from = 0;
  for (std::size_t i = 0; i < source.launches.size(); ++i) {
    const std::string& entry = source.launches[i].entry;
    from = text.find(entry + "(", from);
    text.replace(from, entry.size(), batch_name(number, i));
  }
  return text;
}

}  // namespace ridgepoint::testing
