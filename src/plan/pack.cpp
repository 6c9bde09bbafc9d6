#include "plan/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "plan/lowest_gap.h"

namespace ridgepoint {
namespace {

// Limits of the search: packings of a few thousand blocks take milliseconds, those of 20,000 blocks under a second.
constexpr std::uint64_t kMostVisits = 50'000'000;
constexpr int kMostRounds = 200;

using Order = std::vector<std::uint32_t>;

// The maximum of any range of values, in constant time.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<std::size_t> values) {
    levels_.push_back(std::move(values));
    for (std::size_t width = 2; width <= levels_[0].size(); width *= 2) {
      const std::vector<std::size_t>& half = levels_.back();
      std::vector<std::size_t> level(levels_[0].size() - width + 1);
      for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + width / 2]);
      levels_.push_back(std::move(level));
    }
  }
  // Of the values from `first` to `last`, both included.
  std::size_t operator()(std::size_t first, std::size_t last) const {
    const auto level = static_cast<std::size_t>(std::bit_width(last - first + 1)) - 1;
    const std::vector<std::size_t>& maxima = levels_[level];
    return std::max(maxima[first], maxima[last + 1 - (std::size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<std::size_t>> levels_;  // level k: maxima of 2^k values
};

class Packer {
 public:
  explicit Packer(std::span<const Lifetime> lifetimes)
      : lifetimes_(lifetimes), live_(live_bytes_by_step(lifetimes)), lower_bound_(std::ranges::max(live_)) {
    best_.offsets.resize(lifetimes.size());
    best_.bytes = SIZE_MAX;
  }

  Packing run() {
    stack_permanent_blocks();
    for (const Order& order : orders()) {
      if (!is_done()) attempt(order);
    }
    improve();
    return std::move(best_);
  }

 private:
  // Blocks that are always live lie at the bottom; the others are movable.
  void stack_permanent_blocks() {
    const auto end = static_cast<std::uint32_t>(live_.size() - 1);
    for (std::uint32_t i = 0; i < lifetimes_.size(); ++i) {
      const Lifetime& lifetime = lifetimes_[i];
      if (lifetime.bytes == 0) continue;
      if (lifetime.first == 0 && lifetime.last == end) {
        best_.offsets[i] = floor_;
        floor_ += lifetime.bytes;
      } else {
        movable_.push_back(i);
      }
    }
  }

  template <typename Key>
  Order sorted_by(Key key) const {
    Order order = movable_;
    std::ranges::stable_sort(order, std::greater<>(), key);
    return order;
  }

  // Orders in which blocks are placed, the one that is best most often first.
  std::array<Order, 4> orders() const {
    const RangeMaximum most_live(live_);
    const auto size = [&](std::uint32_t i) { return lifetimes_[i].bytes; };
    const auto length = [&](std::uint32_t i) { return std::size_t{lifetimes_[i].last} - lifetimes_[i].first + 1; };
    return {// the steps with the most live bytes first (greedy by breadth), so that these are packed without gaps
            sorted_by([&](std::uint32_t i) {
              return std::tuple(most_live(lifetimes_[i].first, lifetimes_[i].last), size(i), length(i));
            }),
            sorted_by([&](std::uint32_t i) { return std::tuple(size(i), length(i)); }),
            sorted_by([&](std::uint32_t i) { return std::tuple(length(i), size(i)); }),
            sorted_by([&](std::uint32_t i) { return static_cast<double>(size(i)) * static_cast<double>(length(i)); })};
  }

  bool is_done() const { return best_.bytes == lower_bound_ || visits_ >= kMostVisits; }

  // Places all movable blocks in the given order and keeps the packing if it is the best. Gives up as soon as it is
  // not. Returns the block that could not be placed within the best size.
  std::optional<std::uint32_t> attempt(const Order& order) {
    LowestGap gaps(lifetimes_, floor_);
    std::vector<std::size_t> offsets = best_.offsets;
    std::optional<std::uint32_t> obstacle;
    for (const std::uint32_t i : order) {
      offsets[i] = gaps.place(i);
      if (gaps.end() >= best_.bytes) {
        obstacle = i;
        break;
      }
    }
    visits_ += gaps.visits();
    if (obstacle) return obstacle;
    best_ = {std::move(offsets), gaps.end()};
    best_order_ = order;
    return std::nullopt;
  }

  // Moves the block that ends above the target to the front of the order and tries again.
  void improve() {
    Order order = best_order_;
    for (int round = 0; round < kMostRounds && !is_done(); ++round) {
      const std::optional<std::uint32_t> obstacle = attempt(order);
      if (!obstacle) continue;  // a better packing; the next attempt finds the block that is in the way of a better one
      const auto at = std::ranges::find(order, *obstacle);
      std::rotate(order.begin(), at, at + 1);
    }
  }

  std::span<const Lifetime> lifetimes_;
  std::vector<std::size_t> live_;  // bytes by step
  std::size_t lower_bound_;
  std::size_t floor_ = 0;  // the end of the permanent blocks
  Order movable_;
  Order best_order_;
  Packing best_;
  std::uint64_t visits_ = 0;
};

}  // namespace

Packing pack(std::span<const Lifetime> lifetimes) { return Packer(lifetimes).run(); }

}  // namespace ridgepoint
