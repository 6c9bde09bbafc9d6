#include "plan/arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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

// Places blocks one after another, each at the lowest offset where it meets no block that is live at the same time.
class LowestGap {
 public:
  // `lifetimes` must outlive this, and end before step `steps`. Offsets begin at `floor`.
  LowestGap(std::span<const Lifetime> lifetimes, std::size_t steps, std::size_t floor)
      : lifetimes_(lifetimes), steps_(steps), floor_(floor) {}

  // Returns the offset of the block, which later blocks avoid. Takes time in proportion to the blocks placed below it.
  std::size_t place(std::uint32_t block) {
    const Lifetime& lifetime = lifetimes_[block];
    const std::size_t offset = lowest_offset(lifetime);
    const Placed placed{offset, offset + lifetime.bytes, lifetime.first, lifetime.last};
    insert(placed);
    end_ = std::max(end_, placed.end);
    return offset;
  }
  // The highest end of all placed blocks, or the floor if there are none.
  std::size_t end() const { return end_ > floor_ ? end_ : floor_; }
  // How many placed blocks all calls of place() have compared or skipped.
  std::uint64_t visits() const { return visits_; }

 private:
  struct Placed {
    std::size_t offset;
    std::size_t end;
    std::uint32_t first, last;
  };
  // Blocks at the same offset, in order of time.
  static std::pair<std::size_t, std::uint32_t> position(const Placed& placed) { return {placed.offset, placed.first}; }
  struct Group {
    std::vector<Placed> blocks;   // in order of position()
    std::uint64_t parts = 0;      // of the run, in which a block of the group is live
    std::size_t last_offset = 0;  // of the blocks
  };

  // The parts of the run in which a block is live: a bit for each 64th of the steps.
  std::uint64_t parts_of(std::uint32_t first, std::uint32_t last) const {
    const std::size_t from = std::size_t{first} * 64 / steps_, to = std::size_t{last} * 64 / steps_;
    return (~std::uint64_t{0} >> (63 - (to - from))) << from;
  }

  std::size_t lowest_offset(const Lifetime& lifetime) {
    const std::uint64_t parts = parts_of(lifetime.first, lifetime.last);
    std::size_t offset = floor_;
    for (const Group& group : placed_) {
      if ((group.parts & parts) == 0 && group.last_offset < offset + lifetime.bytes) {
        visits_ += group.blocks.size();
        continue;
      }
      for (const Placed& other : group.blocks) {
        ++visits_;
        if (other.offset >= offset + lifetime.bytes) return offset;
        if (other.first <= lifetime.last && lifetime.first <= other.last) offset = std::max(offset, other.end);
      }
    }
    return offset;
  }

  void insert(const Placed& placed) {
    if (placed_.empty()) placed_.emplace_back();
    const auto behind = std::ranges::upper_bound(placed_.begin() + 1, placed_.end(), position(placed), {},
                                                 [](const Group& group) { return position(group.blocks.front()); });
    Group& group = *(behind - 1);
    std::vector<Placed>& blocks = group.blocks;
    blocks.insert(std::ranges::upper_bound(blocks, position(placed), {}, position), placed);
    group.parts |= parts_of(placed.first, placed.last);
    group.last_offset = blocks.back().offset;
    if (blocks.size() < kMostOfGroup) return;
    const auto middle = blocks.begin() + kMostOfGroup / 2;
    Group upper{{middle, blocks.end()}};
    blocks.erase(middle, blocks.end());
    for (Group* const half : {&group, &upper}) {
      half->parts = 0;
      half->last_offset = half->blocks.back().offset;
      for (const Placed& each : half->blocks) half->parts |= parts_of(each.first, each.last);
    }
    placed_.insert(behind, std::move(upper));
  }

  static constexpr std::ptrdiff_t kMostOfGroup = 32;

  std::span<const Lifetime> lifetimes_;
  std::size_t steps_;
  std::size_t floor_;
  std::size_t end_ = 0;
  std::uint64_t visits_ = 0;
  // In order of offset. A new block moves only the blocks of its own group, and is compared only with groups that are
  // live in the same parts of the run.
  std::vector<Group> placed_;
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

  // Places all movable blocks in the given order and keeps the packing if it is the smallest so far. Returns the first
  // block that ends above the smallest packing; the attempt stops there.
  std::optional<std::uint32_t> attempt(const Order& order) {
    LowestGap gaps(lifetimes_, live_.size(), floor_);
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
      if (!obstacle) continue;  // a smaller packing; the next attempt finds the block that prevents an even smaller one
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

// One block that stands for the blocks of a group.
Lifetime joined(const std::vector<Lifetime>& lifetimes, const std::vector<std::uint32_t>& group) {
  Lifetime all = lifetimes[group.front()];
  all.bytes = 0;
  for (const std::uint32_t i : group) {
    all.bytes += lifetimes[i].bytes;
    all.first = std::min(all.first, lifetimes[i].first);
    all.last = std::max(all.last, lifetimes[i].last);
  }
  return all;
}

}  // namespace

Packing pack(std::span<const Lifetime> lifetimes) { return Packer(lifetimes).run(); }

AdjacentBlocks blocks_of_sums(const Graph& graph, const ExecutionPlan& plan) {
  AdjacentBlocks groups;
  std::set<BufferId> placed;
  for (const PlanStep& step : plan.steps) {
    if (graph.node(step.node).op != Op::all_reduce) continue;
    std::map<DType, std::vector<std::uint32_t>> by_type;
    for (const Operand& operand : step.inputs) {
      if (operand.buffer == kNoBuffer || plan.buffers[operand.buffer].persistent) continue;
      const TensorType type{operand.layout.dtype, operand.layout.shape};
      const bool fills_buffer = operand.offset_bytes == 0 && plan.buffers[operand.buffer].bytes == type.bytes();
      if (fills_buffer && placed.insert(operand.buffer).second) by_type[type.dtype].push_back(operand.buffer);
    }
    for (auto& [dtype, group] : by_type) {
      if (group.size() > 1) groups.push_back(std::move(group));
    }
  }
  return groups;
}

Arena place_in_arena(std::vector<Lifetime> lifetimes, const AdjacentBlocks& adjacent) {
  std::vector<Lifetime> blocks = lifetimes;
  for (const std::vector<std::uint32_t>& group : adjacent) {
    for (const std::uint32_t i : group) blocks[i].bytes = 0;
    blocks[group.front()] = joined(lifetimes, group);
  }
  Packing packing = pack(blocks);
  for (const std::vector<std::uint32_t>& group : adjacent) {
    std::size_t offset = packing.offsets[group.front()];
    for (const std::uint32_t i : group) {
      packing.offsets[i] = offset;
      offset += lifetimes[i].bytes;
    }
  }
  return {std::move(lifetimes), std::move(packing.offsets), packing.bytes};
}

}  // namespace ridgepoint
