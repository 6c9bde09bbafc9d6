// The safetensors format (https://github.com/huggingface/safetensors#format): a 64-bit little-endian header length, a
// JSON header
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "text"}}
// and the data, dense and little-endian; data_offsets count from the start of the data.
//
// A file may be malicious: each number in the header is checked against the file before memory is allocated for it, and
// every Error names the tensor and the rule that it breaks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

// The longest header that is read: enough for a hundred thousand tensors, and parsing it fits any machine's memory.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = std::uint64_t{16} << 20;

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  std::uint64_t offset_bytes = 0;  // from the start of the data; the length is type.bytes()
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Parses the JSON header of a file with `data_bytes` bytes of data. The tensors must cover the data exactly, without
// overlap or gap. Throws Error for any other header, and for a dtype or rank that this library does not support.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

// An open file. The constructor reads and checks the header; read() reads one tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  std::vector<std::string> names() const;  // sorted
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Both throw Error with the most similar name when there is no tensor `name`.
  const TensorType& type(std::string_view name) const { return entry(name).type; }
  HostTensor read(std::string_view name) const;

 private:
  const SafetensorsEntry* find(std::string_view name) const;
  const SafetensorsEntry& entry(std::string_view name) const;

  InputFile file_;
  SafetensorsHeader header_;
  std::uint64_t data_offset_bytes_ = 0;
};

// A tensor to be written; its name and type are needed before its data.
struct TensorDeclaration {
  std::string name;
  TensorType type;
};

// Writes a whole file, or none if it fails. tensor(i) returns the data of declarations[i] and is called once for each
// i, the widest dtypes first (which aligns every tensor), so that one tensor at a time is in memory. The checksum, if
// given, is that of the file. Throws Error for a
// repeated or reserved name, a name that is not UTF-8, a tensor of another type than declared, and a file that cannot
// be written.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorDeclaration> declarations,
                       const std::function<HostTensor(std::size_t)>& tensor,
                       std::span<const std::pair<std::string, std::string>> metadata = {},
                       Checksum* checksum = nullptr);
// The same of bytes that the caller has: those of declarations[i] are read before bytes() is called again.
void write_tensor_bytes(const std::filesystem::path& path, std::span<const TensorDeclaration> declarations,
                        const std::function<std::span<const std::byte>(std::size_t)>& bytes,
                        std::span<const std::pair<std::string, std::string>> metadata = {},
                        Checksum* checksum = nullptr);

}  // namespace ridgepoint
