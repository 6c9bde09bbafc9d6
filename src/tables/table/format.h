// The output formats of tables and records.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/types/enum_names.h"

namespace ridgepoint::views {

enum class Format : std::uint8_t { table, markdown, csv, json, jsonl };
inline constexpr auto kFormatNames = enum_names<Format>("table", "markdown", "csv", "json", "jsonl");

constexpr std::string_view name(Format format) { return kFormatNames[format]; }
constexpr bool is_for_people(Format format) { return format == Format::table || format == Format::markdown; }

}  // namespace ridgepoint::views
