// The forms in which tables and records are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/enum_names.h"

namespace ridgepoint::cli {

enum class Format : std::uint8_t { table, markdown, csv, json, jsonl };
inline constexpr auto kFormatNames = enum_names<Format>("table", "markdown", "csv", "json", "jsonl");

constexpr std::string_view name(Format format) { return kFormatNames[format]; }
constexpr bool is_for_people(Format format) { return format == Format::table || format == Format::markdown; }

inline constexpr std::size_t kProseWidth = 100;  // of captions and notes, however wide the terminal

}  // namespace ridgepoint::cli
