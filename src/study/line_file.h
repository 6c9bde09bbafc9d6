// Files to which lines of JSON are only appended: what ends while it writes leaves an incomplete last line, and nothing
// else is lost.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint {

// The complete lines; none if the file does not exist.
std::vector<std::string> complete_lines(const std::filesystem::path& path);

// Throws Error that says where the file is damaged and what to do: "line 3 is no row".
[[noreturn]] void throw_damaged(const std::filesystem::path& path, std::string_view problem);

// The complete lines as objects. Throws Error, with the file and the line, for one that is none.
std::vector<Json> json_lines(const std::filesystem::path& path);

// Appends with one write, so that no reader and no crash sees another order of bytes.
void append_line(const std::filesystem::path& path, std::string_view line);

// Keeps the first `count` lines.
void keep_lines(const std::filesystem::path& path, std::size_t count);

// Returns whether the file had an incomplete last line.
bool drop_incomplete_line(const std::filesystem::path& path);

}  // namespace ridgepoint
