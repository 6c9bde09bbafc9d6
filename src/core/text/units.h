// Formatting and parsing of quantities: bytes in binary units; times, counts and rates in powers of a thousand.
// Formatting never fails; parsing throws Error (usage) naming the text, what is wrong and what is accepted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridgepoint {

// 0 B, 512 B, 1.50 KiB, 20.0 GiB, or as write_bytes_in() says.
std::string format_bytes(std::uint64_t bytes);
inline constexpr std::array<std::string_view, 5> kPrintedByteUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
// From now on in this unit of kPrintedByteUnits; in one that suits each if it is empty. Throws Error (usage) for
// another.
void write_bytes_in(std::string_view unit);
// Of a figure that was computed or read: "-" where it is not finite, 0 B at least.
std::string format_byte_count(double bytes);
// -1.5 GiB, 0 B, 1.5 GiB.
std::string format_signed_bytes(std::int64_t bytes);
// Three significant digits and a thousands prefix: 128.6 M (parameters), 35.2 G (flops), 81.
std::string format_count(double count);
// Milliseconds with a precision that suits their size: 0.0123, 4.56, 123.4, 12345.
std::string format_ms(double milliseconds);
// 0:05, 12:34, 1:02:03.
std::string format_duration(double seconds);

// "20GiB", "512MiB", "1GB", "1.5GiB", "4096", "64 KiB"; decimal and binary units, case-insensitive. Positive.
std::int64_t parse_bytes(std::string_view text);
// A 64-bit integer: decimal digits after an optional '-'.
std::int64_t parse_integer(std::string_view text);
// The same, or thousands of 1,024: 32k is 32768.
std::int64_t parse_tokens(std::string_view text);

}  // namespace ridgepoint
