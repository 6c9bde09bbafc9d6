// JSON files that may be malicious: their size is limited before anything is made of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/text/json.h"

namespace ridgepoint {

inline constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;  // an index of a million tensors

// The object in `text`. Throws Error that begins with `what` for text that parse_json() refuses or that is no object.
Json parse_json_object(std::string_view text, std::string_view what);

// The object in a file. Throws Error also for a file that cannot be read or is longer than `limit_bytes`.
Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes);

}  // namespace ridgepoint
