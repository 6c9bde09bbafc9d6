#include "core/files/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ridgepoint {
namespace {

template <typename Word>
Word word_at(const std::byte* address) {
  Word word;
  std::memcpy(&word, address, sizeof(word));
  return word;
}

}  // namespace

void Checksum::add_stripes(const std::byte* stripes, std::size_t count) {
  std::array<std::uint64_t, 4> sums = sums_;  // in registers
  for (std::size_t i = 0; i < count; ++i, stripes += kStripeBytes) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      const auto word = word_at<std::uint64_t>(stripes + lane * sizeof(std::uint64_t));
      sums[lane] = std::rotl(sums[lane] + word * kPrime2, 31) * kPrime1;
    }
  }
  sums_ = sums;
}

void Checksum::add(std::span<const std::byte> bytes) {
  const std::size_t held = size_bytes_ % kStripeBytes;
  size_bytes_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(bytes.size(), kStripeBytes - held);
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    if (held + taken < kStripeBytes) return;
    add_stripes(rest_.data(), 1);
  }
  const std::size_t stripes = bytes.size() / kStripeBytes;
  add_stripes(bytes.data(), stripes);
  std::ranges::copy(bytes.subspan(stripes * kStripeBytes), rest_.begin());
}

// The four sums as one.
std::uint64_t Checksum::merged() const {
  if (size_bytes_ < kStripeBytes) return kPrime5;
  constexpr std::array kTurns = {1, 7, 12, 18};
  std::uint64_t hash = 0;
  for (std::size_t lane = 0; lane < sums_.size(); ++lane) hash += std::rotl(sums_[lane], kTurns[lane]);
  for (const std::uint64_t sum : sums_) hash = (hash ^ (std::rotl(sum * kPrime2, 31) * kPrime1)) * kPrime1 + kPrime4;
  return hash;
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = merged() + size_bytes_;
  const std::byte* next = rest_.data();
  const std::byte* const end = next + size_bytes_ % kStripeBytes;
  for (; end - next >= 8; next += 8)
    hash = std::rotl(hash ^ (std::rotl(word_at<std::uint64_t>(next) * kPrime2, 31) * kPrime1), 27) * kPrime1 + kPrime4;
  if (end - next >= 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(next) * kPrime1), 23) * kPrime2 + kPrime3;
    next += 4;
  }
  for (; next != end; ++next) hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*next) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace ridgepoint
