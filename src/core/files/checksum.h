// XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md) with the seed 0: finds damage, at the speed of
// memory. It is no protection against a forger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ridgepoint {

class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  std::uint64_t value() const;  // of all that was added
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  static constexpr std::size_t kStripeBytes = 32;
  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                                 kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                                 kPrime5 = 0x27D4EB2F165667C5;

  void add_stripes(const std::byte* stripes, std::size_t count);
  std::uint64_t merged() const;

  std::array<std::uint64_t, 4> sums_ = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, kStripeBytes> rest_ = {};  // what does not fill a stripe yet
  std::uint64_t size_bytes_ = 0;
};

}  // namespace ridgepoint
