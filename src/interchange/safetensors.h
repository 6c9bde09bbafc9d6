// The safetensors format: a 64-bit little-endian header length, a JSON header
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "text"}}
// and the dense little-endian data the offsets count into.
// https://github.com/huggingface/safetensors#format
//
// Files are read as hostile: every claim of the header is checked against the file before anything is allocated
// for it, and every Error says which tensor broke which rule.
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
#include "ridgepoint/graph.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint {

// The longest header read: room for a hundred thousand tensors, and what it unpacks to still fits any machine.
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

// Reads the JSON header of a file with `data_bytes` bytes of data behind it. The tensors must cover the data exactly,
// without overlap or hole. Throws Error for anything else, and for a dtype or rank this library does not have.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

// An open file: the header is read and checked at once, tensors one at a time as they are asked for.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  std::vector<std::string> names() const;  // sorted
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Throw Error naming the nearest tensor when there is none of that name.
  const TensorType& type(std::string_view name) const { return entry(name).type; }
  HostTensor read(std::string_view name) const;

 private:
  const SafetensorsEntry* find(std::string_view name) const;
  const SafetensorsEntry& entry(std::string_view name) const;

  InputFile file_;
  SafetensorsHeader header_;
  std::uint64_t data_offset_bytes_ = 0;
};

// A tensor to be written: its name and type are known before its data.
struct TensorDeclaration {
  std::string name;
  TensorType type;
};

// Writes a file, whole or not at all. `tensor(i)` supplies the data of declarations[i] and is called once each, wide
// dtypes first and in order otherwise (which keeps every tensor aligned), so that one tensor at a time is in memory.
// Throws Error for a repeated or reserved name, a name that is not UTF-8, a tensor of another type than declared,
// and when the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorDeclaration> declarations,
                       const std::function<HostTensor(std::size_t)>& tensor,
                       std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace ridgepoint
