#include "backends/reference/collectives.h"

#include <cstring>

#include "ridgepoint/error.h"
#include "ridgepoint/shape.h"

namespace ridgepoint::reference {
namespace {

HostTensor sum_of(std::span<const HostTensor> operands) {
  HostTensor sum(operands[0].type);
  const std::size_t element_bytes = size_bytes(sum.type.dtype);
  for (std::size_t offset = 0; offset < sum.data.size(); offset += element_bytes) {
    double value = 0;
    for (const HostTensor& operand : operands) value += load_element(sum.type.dtype, operand.data.data() + offset);
    store_element(sum.type.dtype, sum.data.data() + offset, value);
  }
  return sum;
}

std::vector<HostTensor> parts_of(const HostTensor& whole, std::size_t count) {
  const std::int64_t elements = whole.type.elements() / static_cast<std::int64_t>(count);
  std::vector<HostTensor> parts(count, HostTensor({whole.type.dtype, Shape{elements}}));
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::size_t bytes = parts[rank].data.size();
    if (bytes > 0) std::memcpy(parts[rank].data.data(), whole.data.data() + rank * bytes, bytes);
  }
  return parts;
}

HostTensor joined(std::span<const HostTensor> operands) {
  const TensorType& type = operands[0].type;
  HostTensor whole({type.dtype, with_size(type.shape, 0, type.shape[0] * static_cast<std::int64_t>(operands.size()))});
  for (std::size_t rank = 0; rank < operands.size(); ++rank) {
    const std::size_t bytes = operands[rank].data.size();
    if (bytes > 0) std::memcpy(whole.data.data() + rank * bytes, operands[rank].data.data(), bytes);
  }
  return whole;
}

}  // namespace

std::vector<HostTensor> collective_results(Op op, std::span<const HostTensor> operands, std::size_t root) {
  switch (op) {
    case Op::all_reduce:
      return std::vector(operands.size(), sum_of(operands));
    case Op::reduce_scatter:
      return parts_of(sum_of(operands), operands.size());
    case Op::all_gather:
      return std::vector(operands.size(), joined(operands));
    case Op::collective_broadcast:
      return std::vector(operands.size(), operands[root]);
    default:
      throw Error(std::string(name(op)) + " is no collective");
  }
}

}  // namespace ridgepoint::reference
