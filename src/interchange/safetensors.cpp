#include "interchange/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is read and written without swapping bytes");

constexpr std::size_t kLengthBytes = 8;

std::uint64_t read_header_length(const InputFile& file) {
  if (file.size_bytes() < kLengthBytes)
    throw_error("'{}' is not a safetensors file: it has {} bytes, and the header length alone needs {}",
                file.path().string(), file.size_bytes(), kLengthBytes);
  std::array<std::byte, kLengthBytes> raw;
  file.read_at(0, raw);
  const auto length = std::bit_cast<std::uint64_t>(raw);
  if (length > kMaxSafetensorsHeaderBytes)
    throw_error("'{}' is not a safetensors file: its header length is {} bytes, and at most {} are allowed",
                file.path().string(), length, kMaxSafetensorsHeaderBytes);
  if (length > file.size_bytes() - kLengthBytes)
    throw_error("'{}' is truncated: its header length is {} bytes, and {} bytes follow", file.path().string(), length,
                file.size_bytes() - kLengthBytes);
  return length;
}

SafetensorsHeader read_header(const InputFile& file) {
  const std::uint64_t length = read_header_length(file);
  std::string json(length, '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(json.data(), json.size())));
  try {
    return parse_safetensors_header(json, file.size_bytes() - kLengthBytes - length);
  } catch (const Error& error) {
    throw_error("cannot read '{}': {}", file.path().string(), error.what());
  }
}

// A bool whose byte is neither 0 nor 1 has undefined behaviour in C++.
void check_booleans(const HostTensor& tensor, const std::string& name) {
  if (tensor.type.dtype != DType::boolean) return;
  const auto bad = std::ranges::find_if(tensor.data, [](std::byte b) { return b > std::byte{1}; });
  if (bad != tensor.data.end())
    throw_error("tensor {} is BOOL, but its element {} is {}; only 0 and 1 are allowed", quote_name(name),
                bad - tensor.data.begin(), std::to_integer<int>(*bad));
}

// The widest dtypes come first, which aligns every tensor to its element size; otherwise the caller's order.
std::vector<std::size_t> data_order(std::span<const TensorDeclaration> declarations) {
  std::vector<std::size_t> order(declarations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return size_bytes(declarations[i].type.dtype); });
  return order;
}

nlohmann::ordered_json shape_json(const Shape& shape) {
  auto sizes = nlohmann::ordered_json::array();
  for (const Dim& dim : shape.dims()) sizes.push_back(dim.size);
  return sizes;
}

void check_declarations(std::span<const TensorDeclaration> declarations) {
  std::vector<std::string_view> names;
  for (const TensorDeclaration& declaration : declarations) names.push_back(declaration.name);
  std::ranges::sort(names);
  if (const auto repeated = std::ranges::adjacent_find(names); repeated != names.end())
    throw_error("two tensors to be written have the name {}", quote_name(*repeated));
  if (std::ranges::binary_search(names, kSafetensorsMetadataKey))
    throw_error("a tensor cannot be named '{}': the format reserves this name", kSafetensorsMetadataKey);
}

std::string header_text(std::span<const TensorDeclaration> declarations, std::span<const std::size_t> order,
                        std::span<const std::pair<std::string, std::string>> metadata) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [key, text] : metadata) json[std::string(kSafetensorsMetadataKey)][key] = text;
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    const auto& [name, type] = declarations[i];
    const std::uint64_t end = offset + type.bytes();
    // operator[] searches the keys linearly, and names are known to be unique here.
    json.get_ref<nlohmann::ordered_json::object_t&>().push_back({name,
                                                                 {{"dtype", kSafetensorsDTypes[type.dtype]},
                                                                  {"shape", shape_json(type.shape)},
                                                                  {"data_offsets", {offset, end}}}});
    offset = end;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("a tensor name or metadata entry to be written is not UTF-8, which the safetensors format requires");
  }
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path), header_(read_header(file_)) {
  const std::uint64_t data_bytes =
      std::accumulate(header_.entries.begin(), header_.entries.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const SafetensorsEntry& entry) { return sum + entry.type.bytes(); });
  data_offset_bytes_ = file_.size_bytes() - data_bytes;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : header_.entries) names.push_back(entry.name);
  return names;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(header_.entries, name, {}, &SafetensorsEntry::name);
  return found != header_.entries.end() && found->name == name ? &*found : nullptr;
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  if (const SafetensorsEntry* found = find(name)) return *found;
  if (header_.entries.empty())
    throw_error("'{}' has no tensor {}: it has no tensors at all", path().string(), quote_name(name));
  std::vector<std::string_view> known;
  for (const SafetensorsEntry& entry : header_.entries) known.push_back(entry.name);
  const std::string near = nearest(name, known);
  throw_error("'{}' has no tensor {} among its {} tensors{}", path().string(), quote_name(name), known.size(),
              near.empty() ? "" : fmt::format("; the most similar name is {}", quote_name(near)));
}

HostTensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  HostTensor tensor(found.type);
  file_.read_at(data_offset_bytes_ + found.offset_bytes, tensor.data);
  check_booleans(tensor, found.name);
  return tensor;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorDeclaration> declarations,
                       const std::function<HostTensor(std::size_t)>& tensor,
                       std::span<const std::pair<std::string, std::string>> metadata, Checksum* checksum) {
  HostTensor written;
  const auto bytes = [&](std::size_t i) -> std::span<const std::byte> {
    written = tensor(i);
    if (written.type != declarations[i].type)
      throw_error("tensor {} was declared as {}, but its data is {}", quote_name(declarations[i].name),
                  declarations[i].type.to_string(), written.type.to_string());
    return written.data;
  };
  write_tensor_bytes(path, declarations, bytes, metadata, checksum);
}

void write_tensor_bytes(const std::filesystem::path& path, std::span<const TensorDeclaration> declarations,
                        const std::function<std::span<const std::byte>(std::size_t)>& bytes,
                        std::span<const std::pair<std::string, std::string>> metadata, Checksum* checksum) {
  check_declarations(declarations);
  const std::vector<std::size_t> order = data_order(declarations);
  const std::string header = header_text(declarations, order, metadata);
  const std::uint64_t length = header.size();
  OutputFile file(path);
  file.count_in(checksum);
  std::uint64_t data_bytes = 0;
  for (const TensorDeclaration& declaration : declarations) data_bytes += declaration.type.bytes();
  file.expect(data_bytes);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const std::size_t i : order) {
    const std::span<const std::byte> written = bytes(i);
    if (written.size() != declarations[i].type.bytes())
      throw_error("tensor {} was declared as {}, but its data has {} bytes", quote_name(declarations[i].name),
                  declarations[i].type.to_string(), written.size());
    file.write(written);
  }
  file.commit();
}

}  // namespace ridgepoint
