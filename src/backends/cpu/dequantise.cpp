// Weights that are stored in 4 or 8 bits, in the type of a product.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/tile/functions/functions.h"
#include "core/threads/parallel.h"
#include "ir/packed_weight.h"

namespace ridgepoint::cpu {
namespace {

class Dequantise : public Kernel {
 public:
  explicit Dequantise(const KernelSpec& spec)
      : parts_(packed_parts(spec.node.attributes)),
        element_bytes_(static_cast<std::int64_t>(size_bytes(spec.outputs[0].dtype))),
        store_(tile::store_function(spec.outputs[0].dtype, 1)) {}

  std::string_view name() const override { return "dequantise_forward_rows"; }

  void launch(const LaunchArguments& arguments) override {
    for (const PackedPart& part : parts_) {
      const auto* packed = static_cast<const std::byte*>(arguments.inputs[0]) + part.first_byte;
      auto* result =
          static_cast<std::byte*>(arguments.outputs[0]) + part.first_row * part.matrix.columns * element_bytes_;
      parallel_for(part.matrix.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::array<float, kStretch> elements;
        for (std::int64_t first = begin; first < end; first += kStretch) {
          const std::int64_t count = std::min(kStretch, end - first);
          unpack(part.matrix, packed, first, count, elements.data());
          store_(result + first * element_bytes_, elements.data(), nullptr, nullptr, count, 1);
        }
      });
    }
  }

 private:
  static constexpr std::int64_t kGrain = 1 << 15;
  static constexpr std::int64_t kStretch = 1024;  // elements that stay in the first cache

  std::vector<PackedPart> parts_;
  std::int64_t element_bytes_;
  tile::Function store_;
};

}  // namespace

std::unique_ptr<Kernel> make_dequantise_kernel(const KernelSpec& spec) { return std::make_unique<Dequantise>(spec); }

}  // namespace ridgepoint::cpu
