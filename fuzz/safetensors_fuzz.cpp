// The safetensors reader, with whole files and with headers only. For any bytes it throws Error or returns tensors that
// are inside the file and cover its data.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "interchange/safetensors.h"
#include "memory_file.h"
#include "require.h"
#include "ridgepoint/core/error.h"

namespace {

// A shorter header cannot describe a tensor; the fuzzer soon finds longer ones.
constexpr std::uint64_t kBareHeaderDataBytes = 8;

void read_header(std::string_view bytes) {
  try {
    const ridgepoint::SafetensorsHeader header = ridgepoint::parse_safetensors_header(bytes, kBareHeaderDataBytes);
    std::uint64_t total = 0;
    for (const ridgepoint::SafetensorsEntry& entry : header.entries) {
      RIDGEPOINT_REQUIRE(entry.offset_bytes + entry.type.bytes() <= kBareHeaderDataBytes);
      total += entry.type.bytes();
    }
    RIDGEPOINT_REQUIRE(total == kBareHeaderDataBytes);
  } catch (const ridgepoint::Error&) {
  }
}

void read_file(std::string_view bytes) {
  const MemoryFile memory(bytes);
  try {
    const ridgepoint::SafetensorsFile file(memory.path());
    for (const std::string& name : file.names()) {
      try {
        RIDGEPOINT_REQUIRE(file.read(name).data.size() == file.type(name).bytes());
      } catch (const ridgepoint::Error&) {  // a bool that is neither 0 nor 1
      }
    }
  } catch (const ridgepoint::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_header(bytes);
  read_file(bytes);
  return 0;
}
