// How the tensors of a program come in and out: from the host, from random values, and from the parts of all ranks.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "core/random/random_values.h"
#include "core/text/nearest.h"
#include "core/threads/parallel.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/program/program_state.h"

namespace ridgepoint {
namespace {

// Copies the elements from `from`, the address of element (0,...,0), in row-major order; returns the end of `to`.
std::byte* gather(const TensorLayout& layout, int axis, const std::byte* from, std::byte* to) {
  const std::size_t element_bytes = size_bytes(layout.dtype);
  if (axis == layout.shape.rank()) {
    std::memcpy(to, from, element_bytes);
    return to + element_bytes;
  }
  const std::int64_t stride = layout.strides[static_cast<std::size_t>(axis)];
  if (axis == layout.shape.rank() - 1 && stride == 1) {
    const std::size_t bytes = static_cast<std::size_t>(layout.shape[axis]) * element_bytes;
    std::memcpy(to, from, bytes);
    return to + bytes;
  }
  for (std::int64_t i = 0; i < layout.shape[axis]; ++i)
    to = gather(layout, axis + 1, from + i * stride * static_cast<std::int64_t>(element_bytes), to);
  return to;
}

// The elements in row-major order. The layout has no immediate; `address` is that of element (0,...,0). Waits for the
// device.
HostTensor read_tensor(Device& device, const TensorLayout& layout, const void* address) {
  HostTensor tensor({layout.dtype, layout.shape});
  device.synchronize();
  if (layout.is_dense()) {
    device.copy_to_host(tensor.data.data(), address, tensor.data.size());
    return tensor;
  }
  // The span of memory that the elements lie in, from the lowest to the highest.
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const std::int64_t reach = (layout.shape[axis] - 1) * layout.strides[static_cast<std::size_t>(axis)];
    lowest += std::min<std::int64_t>(reach, 0);
    highest += std::max<std::int64_t>(reach, 0);
  }
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(layout.dtype));
  std::vector<std::byte> span(static_cast<std::size_t>((highest - lowest + 1) * element_bytes));
  device.copy_to_host(span.data(), static_cast<const std::byte*>(address) + lowest * element_bytes, span.size());
  gather(layout, 0, span.data() - lowest * element_bytes, tensor.data.data());
  return tensor;
}

// `bound`: the number of rows of the table that they index. `ignored` is allowed too, unless it is 0.
void check_indices(const std::string& name, std::span<const std::int64_t> indices, std::int64_t bound,
                   std::int64_t ignored) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if ((indices[i] >= 0 && indices[i] < bound) || (ignored != 0 && indices[i] == ignored)) continue;
    throw Error("element " + std::to_string(i) + " of '" + name + "' is " + std::to_string(indices[i]) +
                    "; indices must be from 0 to " + std::to_string(bound - 1) +
                    (ignored == 0 ? "" : ", or " + std::to_string(ignored)),
                ErrorKind::usage);
  }
}

void copy_on_host(void* to, const void* from, std::size_t bytes) {
  constexpr std::int64_t kPart = std::int64_t{1} << 22;
  parallel_for(static_cast<std::int64_t>(bytes), kPart, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

bool has_memory_of_host(const Device& device) { return !device.kind().starts_with("cuda"); }

}  // namespace

void Program::Implementation::synchronize() const {
  device->synchronize();
  if (file != nullptr) file->require_working();
}

void Program::Implementation::write_initial_values() {
  for (const InputSlot& slot : source->inputs) {
    const Node& node = graph.producer_node(slot.value);
    if (!node.attributes.contains("initial")) continue;
    HostTensor tensor({DType::fp64, graph.type(slot.value).shape});
    std::ranges::fill(tensor.as<double>(), node.attributes.get<double>("initial"));
    write(slot.value, tensor);
  }
}

void Program::Implementation::write(Value value, const HostTensor& tensor, std::int64_t first_element) {
  const DType dtype = graph.type(value).dtype;
  if (tensor.type.dtype != dtype) {
    cast.type = {dtype, tensor.type.shape};
    cast.data.resize(cast.type.bytes());
    convert_to_stored(tensor, cast);
    return write(value, cast, first_element);
  }
  copy_in(value, element(value, first_element), tensor.data.data(), tensor.data.size());
}

bool Program::Implementation::is_on_host(Value value) const {
  const BufferId buffer = plan.values[value.id].buffer;
  return buffer != kNoBuffer && plan.buffers[buffer].on_host;
}

bool Program::Implementation::is_on_disk(Value value) const {
  const BufferId buffer = plan.values[value.id].buffer;
  return buffer != kNoBuffer && plan.buffers[buffer].on_disk;
}

void Program::Implementation::copy_in(Value value, void* to, const void* from, std::size_t bytes) {
  if (!is_on_host(value)) return device->copy_to_device(to, from, bytes);
  if (device->kind() == "null") return;
  synchronize();
  if (is_on_disk(value)) return file->write(to, {static_cast<const std::byte*>(from), bytes});
  copy_on_host(to, from, bytes);
}

void Program::Implementation::copy_out(Value value, void* to, const void* from, std::size_t bytes) const {
  if (!is_on_host(value) || device->kind() == "null") return device->copy_to_host(to, from, bytes);
  synchronize();
  if (is_on_disk(value)) return file->read(from, {static_cast<std::byte*>(to), bytes});
  copy_on_host(to, from, bytes);
}

HostTensor Program::Implementation::read_dense(Value value, const TensorType& type, const std::byte* from) const {
  if (!is_on_host(value)) return read_tensor(*device, dense_layout(type), from);
  HostTensor tensor(type);
  copy_out(value, tensor.data.data(), from, tensor.data.size());
  return tensor;
}

std::vector<Program::Implementation::Overlap> Program::Implementation::overlaps(const InputSlot& slot) const {
  std::vector<Overlap> found;
  const std::int64_t first = slot.tensor.first_element;
  for (const Store& store : source->stores.at(slot.value)) {
    const std::int64_t begin = std::max(first, store.first_element);
    const std::int64_t end = std::min(first + slot.tensor.type.elements(), store.first_element + store.elements);
    if (begin < end) found.push_back({store.value, begin - first, end - first, begin - store.first_element});
  }
  return found;
}

const Program::Implementation::Store& Program::Implementation::exact_store(const InputSlot& slot) const {
  const std::vector<Store>& stores = source->stores.at(slot.value);
  const auto exact = std::ranges::find_if(
      stores, [&](const Store& store) { return graph.type(store.value).dtype == slot.tensor.type.dtype; });
  return exact != stores.end() ? *exact : stores.front();
}

std::optional<Value> Program::Implementation::low_halves(const InputSlot& slot) const {
  for (const Store& store : source->stores.at(slot.value)) {
    if (graph.type(store.value).dtype == DType::low_half) return store.value;
  }
  return std::nullopt;
}

void Program::Implementation::write_packed(const InputSlot& slot, const HostTensor& tensor) {
  if (tensor.type.dtype == DType::fp32) return write_packed(slot, elements_of(tensor.as<float>()));
  const HostTensor wide = convert(tensor, DType::fp32);
  write_packed(slot, elements_of(wide.as<float>()));
}

void Program::Implementation::write_packed(const InputSlot& slot, const ElementSource& elements) {
  const PackedMatrix& matrix = *slot.tensor.packed;
  if (matrix.format == BaseWeights::fp8) return write_float8(slot, float8_weight(matrix, elements));
  const auto count = static_cast<std::size_t>(matrix.bytes());
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(count);
  pack(matrix, elements, {bytes.get(), count});
  write_packed_bytes(slot, {bytes.get(), count});
}

void Program::Implementation::write_packed_bytes(const InputSlot& slot, std::span<const std::byte> bytes) {
  const PackedMatrix& matrix = *slot.tensor.packed;
  if (matrix.format == BaseWeights::fp8) return write_float8(slot, {matrix, {}, {bytes.begin(), bytes.end()}});
  copy_in(slot.value, element(slot.value, slot.tensor.first_element), bytes.data(), bytes.size());
}

void Program::Implementation::write_float8(const InputSlot& slot, Float8Weight weight) {
  std::map<std::string, Float8Weight>& of_input = given[slot.value];
  of_input.insert_or_assign(slot.tensor.name, std::move(weight));
  std::vector<const InputSlot*> slots;
  for (const InputSlot& one : source->inputs) {
    if (one.value == slot.value) slots.push_back(&one);
  }
  std::vector<Float8Weight> stored;
  stored.reserve(slots.size());
  std::vector<const Float8Weight*> weights;
  for (const InputSlot* one : slots) {
    const auto found = of_input.find(one->tensor.name);
    if (found == of_input.end()) stored.push_back({*one->tensor.packed, {}, packed_bytes(*one)});
    weights.push_back(found == of_input.end() ? &stored.back() : &found->second);
  }
  const std::vector<std::vector<std::byte>> packed = packed_together(weights);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::byte* from = packed[i].data();
    for (const PlaceOfPart& place : places_of_packed(*slots[i])) {
      copy_in(place.value, place.address, from, place.bytes);
      from += place.bytes;
    }
  }
  if (of_input.size() == slots.size()) given.erase(slot.value);
}

std::vector<std::byte> Program::Implementation::packed_bytes(const InputSlot& slot) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(slot.tensor.packed->bytes()));
  synchronize();
  std::byte* to = bytes.data();
  for (const PlaceOfPart& place : places_of_packed(slot)) {
    copy_out(place.value, to, place.address, place.bytes);
    to += place.bytes;
  }
  return bytes;
}

std::vector<Program::Implementation::PlaceOfPart> Program::Implementation::places_of_packed(
    const InputSlot& slot) const {
  std::byte* const address = element(slot.value, slot.tensor.first_element);
  const auto scale = source->scales.find(slot.value);
  if (scale == source->scales.end())
    return {{slot.value, address, static_cast<std::size_t>(slot.tensor.packed->bytes())}};
  return {{slot.value, address, static_cast<std::size_t>(slot.tensor.packed->elements())},
          {scale->second, element(scale->second, 0), sizeof(float)}};
}

HostTensor Program::Implementation::read_packed(const InputSlot& slot) const {
  const PackedMatrix& matrix = *slot.tensor.packed;
  HostTensor tensor({DType::fp32, slot.tensor.type.shape});
  unpack(matrix, packed_bytes(slot).data(), 0, matrix.elements(), tensor.as<float>().data());
  return tensor.type.dtype == slot.tensor.type.dtype ? tensor : convert(tensor, slot.tensor.type.dtype);
}

bool Program::Implementation::is_whole(const Overlap& overlap, const StoredTensor& tensor) {
  return overlap.end - overlap.begin == tensor.type.elements();
}

void Program::Implementation::write_overlap(const Overlap& overlap, const HostTensor& tensor) {
  HostTensor elements({tensor.type.dtype, Shape{overlap.end - overlap.begin}});
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(tensor.type.dtype));
  std::copy_n(tensor.data.begin() + overlap.begin * element_bytes, elements.data.size(), elements.data.begin());
  write(overlap.value, elements, overlap.first_in_store);
}

void Program::Implementation::write_random(const Overlap& overlap, const StoredTensor& tensor,
                                           const TruncatedNormal& distribution, std::uint64_t seed,
                                           const StopPoint& stop_point) {
  const auto stream = random_stream(tensor.name, seed);
  if (is_whole(overlap, tensor) && !is_on_host(overlap.value)) {
    device->fill_random(element(overlap.value, overlap.first_in_store), graph.type(overlap.value).dtype,
                        tensor.type.elements(), distribution, stream, stop_point);
    return;
  }
  HostTensor elements({DType::fp32, Shape{overlap.end - overlap.begin}});
  fill_random(elements.as<float>(), distribution, stream, overlap.begin, stop_point);
  write(overlap.value, elements, overlap.first_in_store);
}

HostTensor Program::Implementation::gathered(HostTensor part, const StoredTensor& stored) const {
  if (part.type.dtype == DType::low_half) part.type.dtype = DType::bf16;  // a gather copies bits
  Graph gather;
  const Value mine = input(gather, "part", part.type, Role::data);
  gather.add_output({"whole", all_gather(gather, {mine}, source->parallel.data)[0]});
  Program program(std::move(gather), device, {.communicator = communicator});
  program.write_input("part", part);
  program.run();
  program.synchronize();
  const HostTensor whole = program.read_output("whole");
  HostTensor tensor({whole.type.dtype, stored.type.shape});
  const auto begin = stored.first_element * static_cast<std::int64_t>(size_bytes(whole.type.dtype));
  std::copy_n(whole.data.begin() + begin, tensor.data.size(), tensor.data.begin());
  return tensor;
}

std::byte* Program::Implementation::element(Value value, std::int64_t index) const {
  auto* address = static_cast<std::byte*>(executor.address(plan.values[value.id]));
  return address == nullptr ? nullptr : address + static_cast<std::size_t>(index) * size_bytes(graph.type(value).dtype);
}

HostTensor Program::Implementation::read(Value value, const char* message) const {
  const auto* address = static_cast<const std::byte*>(executor.address(plan.values[value.id]));
  if (address == nullptr) throw Error(message, ErrorKind::usage);
  synchronize();
  return is_on_host(value) ? read_dense(value, graph.type(value), address)
                           : read_tensor(*device, plan.values[value.id].layout, address);
}

void Program::write_input(std::string_view name, const HostTensor& tensor) {
  Implementation& self = *implementation_;
  const Implementation::InputSlot& slot = self.find_input(name);
  const StoredTensor& stored = slot.tensor;
  if (stored.packed && tensor.type == TensorType{DType::packed, {stored.packed->bytes()}})
    return self.write_packed_bytes(slot, tensor.data);
  if (!(tensor.type == stored.type)) {
    throw Error("input '" + stored.name + "' is " + stored.type.to_string() + "; the given tensor is " +
                    tensor.type.to_string(),
                ErrorKind::usage);
  }
  if (slot.index_bound != INT64_MAX)
    check_indices(stored.name, tensor.as<std::int64_t>(), slot.index_bound, slot.ignored_index);
  if (stored.packed) return self.write_packed(slot, tensor);
  for (const Implementation::Overlap& overlap : self.overlaps(slot)) {
    if (self.is_whole(overlap, stored)) {
      self.write(overlap.value, tensor, overlap.first_in_store);
    } else {
      self.write_overlap(overlap, tensor);
    }
  }
}

bool Program::bind_input(std::string_view name, const void* memory) {
  Implementation& self = *implementation_;
  const Implementation::InputSlot& slot = self.find_input(name);
  const Role role = input_role(self.graph.producer_node(slot.value));
  const bool is_only_read = role == Role::data || role == Role::constant;
  const bool is_stored_as_it_is = self.graph.type(slot.value) == slot.tensor.type && self.overlaps(slot).size() == 1;
  const Operand& operand = self.plan.values[slot.value.id];
  if (!is_only_read || !is_stored_as_it_is || !has_memory_of_host(*self.device)) return false;
  const auto elements = static_cast<std::size_t>(slot.tensor.type.elements());
  if (memory != nullptr && slot.index_bound != INT64_MAX)
    check_indices(slot.tensor.name, {static_cast<const std::int64_t*>(memory), elements}, slot.index_bound,
                  slot.ignored_index);
  // Kernels do not write to data.
  self.executor.bind(operand.buffer, static_cast<std::byte*>(const_cast<void*>(memory)));  // NOLINT
  return true;
}

bool Program::bind_output(std::string_view name, void* memory) {
  Implementation& self = *implementation_;
  const Value value = self.find_output(name);
  const Operand& operand = self.plan.values[value.id];
  if (operand.buffer == kNoBuffer || operand.offset_bytes != 0 || !operand.layout.is_dense()) return false;
  const Buffer& buffer = self.plan.buffers[operand.buffer];
  const bool is_shared = buffer.persistent || buffer.bytes != self.graph.type(value).bytes() ||
                         (memory != nullptr && self.executor.is_bound(operand.buffer));
  if (is_shared || !has_memory_of_host(*self.device)) return false;
  self.executor.bind(operand.buffer, static_cast<std::byte*>(memory));
  return true;
}

void Program::write_random(std::string_view name, const TruncatedNormal& distribution, std::uint64_t seed,
                           const StopPoint& stop_point) {
  Implementation& self = *implementation_;
  const Implementation::InputSlot& slot = self.find_input(name);
  const StoredTensor& stored = slot.tensor;
  if (!is_floating(stored.type.dtype)) {
    throw Error("input '" + stored.name + "' is " + stored.type.to_string() + "; only floating inputs can be random",
                ErrorKind::usage);
  }
  if (stored.packed) {
    if (stop_point) stop_point();
    const std::uint64_t stream = random_stream(stored.name, seed);
    return self.write_packed(slot, [&](std::int64_t first, std::span<float> elements) {
      fill_random(elements, distribution, stream, first);
    });
  }
  for (const Implementation::Overlap& overlap : self.overlaps(slot))
    self.write_random(overlap, stored, distribution, seed, stop_point);
}

std::vector<StatePart> Program::state_parts() const {
  const Implementation& self = *implementation_;
  std::vector<StatePart> parts;
  for (const Implementation::InputSlot& slot : self.source->inputs) {
    const Node& node = self.graph.producer_node(slot.value);
    const bool is_parameter = input_role(node) == Role::parameter;
    const bool is_copy = std::ranges::any_of(std::array{kCopyOf, kLowHalfOf, kPartOf, kScaleOf},
                                             [&](auto key) { return node.attributes.contains(key); });
    if (!is_parameter && (input_role(node) != Role::state || is_copy)) continue;
    const Implementation::Store& store = self.exact_store(slot);
    const std::optional<Value> low = self.low_halves(slot);
    const std::int64_t first = slot.tensor.first_element, count = slot.tensor.type.elements();
    StatePart part{.name = slot.tensor.name,
                   .type = slot.tensor.type,
                   .stored = low ? DType::fp32 : self.graph.type(store.value).dtype,
                   .is_parameter = is_parameter,
                   .is_divided = self.graph.producer_node(store.value).attributes.contains(kPart),
                   .is_split = low.has_value(),
                   .is_on_host = self.is_on_host(store.value) || (low && self.is_on_host(*low)),
                   .is_on_disk = self.is_on_disk(store.value) || (low && self.is_on_disk(*low))};
    if (slot.tensor.packed) {
      part.name.insert(0, packed_prefix(slot.tensor.packed->format));
      part.type = {DType::udynamic8, {slot.tensor.packed->bytes()}};
      part.stored = part.type.dtype;
      part.is_parameter = false;
      part.is_packed = true;
      part.end = slot.tensor.packed->bytes();
      parts.push_back(std::move(part));
      continue;
    }
    part.begin = std::clamp<std::int64_t>(store.first_element - first, 0, count);
    part.end = std::clamp<std::int64_t>(store.first_element + store.elements - first, 0, count);
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<Program::Implementation::PlaceOfPart> Program::Implementation::places_of(const StatePart& part) const {
  if (part.is_packed) return places_of_packed(find_input(part.weight()));
  const InputSlot& slot = find_input(part.name);
  const Store& store = exact_store(slot);
  std::vector<Value> values = {store.value};
  if (part.is_split) values.push_back(*low_halves(slot));
  std::vector<PlaceOfPart> places;
  for (const Value value : values)
    places.push_back({value, element(value, slot.tensor.first_element + part.begin - store.first_element),
                      part.bytes() / values.size()});
  return places;
}

void Program::read_part(const StatePart& part, std::span<std::byte> into) const {
  const Implementation& self = *implementation_;
  if (part.begin == part.end) return;
  if (into.size() != part.bytes())
    throw Error("the memory for '" + part.name + "' has not the size of its part", ErrorKind::usage);
  std::byte* to = into.data();
  const std::vector<Implementation::PlaceOfPart> places = self.places_of(part);
  for (const Implementation::PlaceOfPart& place : places) {
    self.copy_out(place.value, to, place.address, place.bytes);
    to += place.bytes;
  }
  join_copied(part, into);
}

void join_copied(const StatePart& part, std::span<std::byte> bytes) {
  if (!part.is_split) return;
  const std::vector<std::byte> halves(bytes.begin(), bytes.end());
  join_halves(std::span(halves).first(halves.size() / 2), std::span(halves).subspan(halves.size() / 2), bytes);
}

void Program::write_part(const StatePart& part, std::span<const std::byte> from) {
  Implementation& self = *implementation_;
  if (from.size() != part.bytes())
    throw Error("the bytes for '" + part.name + "' have not the size of its part", ErrorKind::usage);
  if (part.is_packed) return self.write_packed_bytes(self.find_input(part.weight()), from);
  const std::vector<Implementation::PlaceOfPart> places = self.places_of(part);
  if (!part.is_split) return self.copy_in(places[0].value, places[0].address, from.data(), from.size());
  HostTensor numbers({part.stored, Shape{part.end - part.begin}});
  std::ranges::copy(from, numbers.data.begin());
  for (const Implementation::PlaceOfPart& place : places) {
    HostTensor half({self.graph.type(place.value).dtype, numbers.type.shape});
    convert_to_stored(numbers, half);
    self.copy_in(place.value, place.address, half.data.data(), half.data.size());
  }
}

void Program::copy_part(const StatePart& part, DeviceCopies& copies, void* device_address) const {
  if (part.begin == part.end) return;
  auto* to = static_cast<std::byte*>(device_address);
  const std::vector<Implementation::PlaceOfPart> places = implementation_->places_of(part);
  for (const Implementation::PlaceOfPart& place : places) {
    copies.copy_on_device(to, place.address, place.bytes);
    to += place.bytes;
  }
}

std::optional<std::int64_t> Program::index_bound(std::string_view name) const {
  const std::int64_t bound = implementation_->find_input(name).index_bound;
  return bound == INT64_MAX ? std::nullopt : std::optional(bound);
}

HostTensor Program::read_input(std::string_view name) const {
  const Implementation& self = *implementation_;
  const Implementation::InputSlot& slot = self.find_input(name);
  const StoredTensor& stored = slot.tensor;
  if (stored.packed) return self.read_packed(slot);
  const Value exact = self.exact_store(slot).value;  // of a weight in fp16, the numbers that ranks update in parts
  const bool is_part = is_divided(self.graph.producer_node(slot.value)) || exact != slot.value;
  const Shape shape = is_part ? self.graph.type(exact).shape : stored.type.shape;
  const auto read = [&](Value value) {
    const TensorType type{self.graph.type(value).dtype, shape};
    HostTensor tensor = self.read_dense(value, type, self.element(value, is_part ? 0 : stored.first_element));
    return is_part ? self.gathered(std::move(tensor), stored) : tensor;
  };
  HostTensor tensor = read(exact);
  if (const std::optional<Value> low = self.low_halves(slot)) {
    HostTensor numbers({DType::fp32, stored.type.shape});
    join_halves(tensor.data, read(*low).data, numbers.data);
    return numbers;
  }
  return tensor.type.dtype == stored.type.dtype ? tensor : convert(tensor, stored.type.dtype);
}

Value Program::Implementation::find_output(std::string_view name) const {
  if (const std::optional<Value> value = graph.find_output(name)) return *value;
  std::vector<std::string_view> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  throw Error("the program has no output '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
}

HostTensor Program::read_output(std::string_view name) const {
  return implementation_->read(implementation_->find_output(name));
}

HostTensor Program::read_value(Value value) const {
  return implementation_->read(value, "a value was read before its launch or after its last use");
}

}  // namespace ridgepoint
