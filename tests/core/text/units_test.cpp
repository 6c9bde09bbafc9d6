#include "core/text/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

ErrorKind kind_of(void (*call)()) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::failure;
}

TEST(FormatBytes, uses_the_unit_that_keeps_the_number_short) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(20ULL << 30), "20.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, never_rounds_to_1024_of_a_unit) { EXPECT_EQ(format_bytes((1ULL << 20) - 1), "1.00 MiB"); }

TEST(FormatBytes, tells_sizes_near_a_unit_apart) {
  EXPECT_EQ(format_bytes(1034ULL << 20), "1.01 GiB");
  EXPECT_EQ(format_bytes(1064ULL << 20), "1.04 GiB");
  EXPECT_EQ(format_bytes((10ULL << 20) - 1), "10.0 MiB");
}

TEST(FormatBytes, keeps_to_the_unit_that_is_asked_for) {
  write_bytes_in("mib");
  EXPECT_EQ(format_bytes(1034ULL << 20), "1034.0 MiB");
  write_bytes_in("GiB");
  EXPECT_EQ(format_bytes(1034ULL << 20), "1.010 GiB");
  write_bytes_in("");
  EXPECT_EQ(format_bytes(1034ULL << 20), "1.01 GiB");
  EXPECT_EQ(kind_of([] { write_bytes_in("MB"); }), ErrorKind::usage);
}

TEST(ParseTokens, counts_thousands_of_1024) {
  EXPECT_EQ(parse_tokens("32k"), 32768);
  EXPECT_EQ(parse_tokens("1K"), 1024);
  EXPECT_EQ(parse_tokens("300"), 300);
  EXPECT_EQ(kind_of([] { parse_tokens("k"); }), ErrorKind::usage);
  EXPECT_EQ(kind_of([] { parse_tokens("9223372036854775807k"); }), ErrorKind::usage);
}

TEST(FormatByteCount, is_defined_for_every_number) {
  EXPECT_EQ(format_byte_count(1536), "1.50 KiB");
  EXPECT_EQ(format_byte_count(-5), "0 B");
  EXPECT_EQ(format_byte_count(1e308), "8.00 EiB");
  EXPECT_EQ(format_byte_count(std::nan("")), "-");
  EXPECT_EQ(format_byte_count(std::numeric_limits<double>::infinity()), "-");
}

TEST(FormatSignedBytes, puts_a_minus_before_the_size) {
  EXPECT_EQ(format_signed_bytes(-1536), "-1.50 KiB");
  EXPECT_EQ(format_signed_bytes(0), "0 B");
  EXPECT_EQ(format_signed_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_signed_bytes(std::numeric_limits<std::int64_t>::min()), "-8.00 EiB");
}

TEST(FormatCount, prefixes_thousands) {
  EXPECT_EQ(format_count(81), "81");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(128'625'408), "128.6 M");
  EXPECT_EQ(format_count(999'960), "1.0 M");
  EXPECT_EQ(format_count(3.5e10), "35.0 G");
  EXPECT_EQ(format_count(std::nan("")), "-");
}

TEST(FormatMs, keeps_three_digits_or_more) {
  EXPECT_EQ(format_ms(0.01234), "0.0123");
  EXPECT_EQ(format_ms(4.564), "4.56");
  EXPECT_EQ(format_ms(123.44), "123.4");
  EXPECT_EQ(format_ms(12345.6), "12346");
  EXPECT_EQ(format_ms(std::nan("")), "-");
}

TEST(FormatDuration, reads_like_a_clock) {
  EXPECT_EQ(format_duration(5.9), "0:05");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(-1), "0:00");
}

TEST(ParseBytes, reads_binary_and_decimal_units) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("20GiB"), 20LL << 30);
  EXPECT_EQ(parse_bytes("512 MiB"), 512LL << 20);
  EXPECT_EQ(parse_bytes("1GB"), 1'000'000'000);
  EXPECT_EQ(parse_bytes("1.5gib"), 3LL << 29);
  EXPECT_EQ(parse_bytes("64K"), 65536);
}

TEST(ParseBytes, refuses_what_is_not_a_positive_size) {
  for (const char* text : {"", "GiB", "1XB", "-1GiB", "0", "0.1", "nan", "inf", "1e3", "1GiB ", "9999999TiB", "1 2"}) {
    EXPECT_THROW(parse_bytes(text), Error) << text;
  }
  EXPECT_EQ(kind_of([] { parse_bytes("x"); }), ErrorKind::usage);
}

TEST(ParseInteger, refuses_what_is_not_one_whole_number) {
  EXPECT_EQ(parse_integer("-12"), -12);
  for (const char* text : {"", "1.5", "12x", " 1", "0x10", "9223372036854775808", "+1"}) {
    EXPECT_THROW(parse_integer(text), Error) << text;
  }
  EXPECT_EQ(kind_of([] { parse_integer("one"); }), ErrorKind::usage);
}

}  // namespace
}  // namespace ridgepoint
