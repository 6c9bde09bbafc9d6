#include "inspect/memory/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/memory_category.h"
#include "ir/scope.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {
namespace {

// The last two parts of a path.
std::string_view short_path(std::string_view path) {
  constexpr std::string_view kSeparators = "/\\";
  const std::size_t last = path.find_last_of(kSeparators);
  if (last == std::string_view::npos || last == 0) return path;
  const std::size_t before = path.find_last_of(kSeparators, last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

bool has_file(const std::string& filename) { return !filename.empty() && filename != "??"; }

std::string frame_name(const Snapshot& snapshot, std::uint32_t number) {
  const SnapshotFrame& frame = snapshot.frames[number];
  const std::string& filename = snapshot.texts[frame.filename];
  const std::string& name = snapshot.texts[frame.name];
  if (!has_file(filename)) return name.empty() ? "(unnamed)" : name;
  return fmt::format("{} ({}:{})", name.empty() ? "(unnamed)" : name, short_path(filename), frame.line);
}

struct Sum {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  void add(std::uint64_t more_bytes, std::uint64_t more_blocks) {
    bytes += more_bytes;
    blocks += more_blocks;
  }
};

// Blocks of one size, category and origin.
struct Kind {
  std::uint32_t origin = 0;
  std::uint8_t category = 0;
  std::uint64_t block_bytes = 0;
  auto operator<=>(const Kind&) const = default;
};
struct Blocks {
  std::uint64_t blocks = 0;
  std::uint64_t rounding_bytes = 0;
  std::uint64_t held = 0;
};

// Blocks in the order in which they were allocated first, summed up by kind and then by group.
class Groups {
 public:
  explicit Groups(const Snapshot& snapshot, Layers layers = Layers::added_up) : snapshot_(snapshot), layers_(layers) {}

  void add(const BlockLife& life, bool is_held) {
    const auto [found, is_new] = numbers_.try_emplace(Kind{life.origin, life.category, life.bytes}, kinds_.size());
    if (is_new) kinds_.emplace_back(found->first, Blocks{});
    Blocks& blocks = kinds_[found->second].second;
    ++blocks.blocks;
    blocks.rounding_bytes += life.rounding_bytes;
    blocks.held += is_held ? 1 : 0;
  }
  const std::vector<std::pair<Kind, Blocks>>& kinds() const { return kinds_; }

  std::vector<MemoryRequest> named() const {
    std::vector<MemoryRequest> groups;
    std::map<Key, std::size_t> numbers;
    for (const auto& [kind, blocks] : kinds_) {
      const MemoryGroup& group = group_of(kind);
      const auto key = std::tuple(group.category, group.phase, group.module, group.op, group.formula, group.source,
                                  kind.block_bytes);
      const auto [found, is_new] = numbers.try_emplace(key, groups.size());
      if (is_new) groups.push_back({group, 0});
      MemoryRequest& same = groups[found->second];
      same.group.blocks += blocks.blocks;
      same.group.bytes += blocks.blocks * kind.block_bytes;
      same.group.rounding_bytes += blocks.rounding_bytes;
      same.held += blocks.held;
    }
    return groups;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, std::uint64_t>;

  MemoryGroup group_of(const Kind& kind) const {
    const SnapshotOrigin& origin = snapshot_.origins[kind.origin];
    OriginPlace place = place_of(snapshot_, kind.origin);
    return {.category = std::string(category_name(snapshot_, kind.category)),
            .phase = snapshot_.texts[origin.phase],
            .module = layers_ == Layers::added_up ? with_layers_added_up(place.module) : std::move(place.module),
            .op = std::move(place.op),
            .source = std::move(place.source),
            .formula = snapshot_.texts[origin.formula]};
  }

  const Snapshot& snapshot_;
  Layers layers_;
  std::map<Kind, std::size_t> numbers_;
  std::vector<std::pair<Kind, Blocks>> kinds_;
};

// By origin, the block of its module. `forward`: the blocks with ops that run forward, in order.
struct BlockNames {
  std::vector<std::string> by_origin;
  std::vector<std::string> forward;
};

BlockNames block_names(const Snapshot& snapshot) {
  BlockNames names;
  for (std::uint32_t i = 0; i < snapshot.origins.size(); ++i) {
    const OriginPlace place = place_of(snapshot, i);
    const std::string& block = names.by_origin.emplace_back(block_of(place.module));
    const bool runs_forward =
        snapshot.texts[snapshot.origins[i].phase] == name(Phase::forward) && !role_from_name(place.op);
    if (runs_forward && !block.empty() && std::ranges::find(names.forward, block) == names.forward.end())
      names.forward.push_back(block);
  }
  return names;
}

// The most bytes at one moment of some lives.
std::uint64_t highest_level(const std::vector<const BlockLife*>& lives, std::uint64_t (*bytes)(const BlockLife&)) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
  for (const BlockLife* life : lives) {
    changes.emplace_back(life->begin, static_cast<std::int64_t>(bytes(*life)));
    changes.emplace_back(life->freed, -static_cast<std::int64_t>(bytes(*life)));
  }
  std::ranges::sort(changes);
  std::int64_t level = 0, highest = 0;
  for (const auto& [moment, change] : changes) highest = std::max(highest, level += change);
  return static_cast<std::uint64_t>(highest);
}

void sort_largest_first(std::vector<MemoryShare>& shares) {
  std::ranges::stable_sort(shares, [](const MemoryShare& a, const MemoryShare& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
}

}  // namespace

std::string_view category_name(const Snapshot& snapshot, std::uint8_t category) {
  if (snapshot.has_categories()) return snapshot.categories[category];
  return kInferredCategoryNames[static_cast<InferredCategory>(category)];
}

OriginNames origin_names(const Snapshot& snapshot, std::uint32_t number) {
  const SnapshotOrigin& origin = snapshot.origins[number];
  if (origin.frame == kNoFrame) return {.name = "(no frames)", .library = {}};
  const std::uint32_t own = origin.caller != kNoFrame ? origin.caller : origin.frame;
  OriginNames names{.name = frame_name(snapshot, own), .library = {}};
  if (own != origin.frame) names.library = frame_name(snapshot, origin.frame);
  return names;
}

OriginPlace place_of(const Snapshot& snapshot, std::uint32_t number) {
  const SnapshotOrigin& origin = snapshot.origins[number];
  if (origin.frame == kNoFrame) return {};
  const SnapshotFrame& frame = snapshot.frames[origin.frame];
  const std::string& filename = snapshot.texts[frame.filename];
  const std::string& name = snapshot.texts[frame.name];
  OriginPlace place{name, "", has_file(filename) ? fmt::format("{}:{}", short_path(filename), frame.line) : ""};
  if (origin.phase == TextTable::kEmpty) return place;
  constexpr std::string_view kOf = " of ";
  const std::size_t of = name.find(kOf);
  const std::size_t end = of != std::string::npos ? of : name.find(' ');
  if (end == std::string::npos) return place;
  place.op = name.substr(0, end);
  place.module = name.substr(end + (of != std::string::npos ? kOf.size() : 1));
  return place;
}

void fill(const Snapshot& snapshot, const Lifetimes& lifetimes, const StopPoint& stop_point, MemoryContents& contents) {
  Groups groups(snapshot);
  lifetimes.for_each(stop_point, [&](const BlockLife& life) {
    if (life.is_allocated(contents.at.moment)) groups.add(life, true);
  });
  std::map<std::uint8_t, Sum> categories;
  // Origins that differ only in their phase have the same names.
  std::unordered_map<std::uint32_t, Sum> origins;
  for (const auto& [kind, blocks] : groups.kinds()) {
    categories[kind.category].add(blocks.blocks * kind.block_bytes, blocks.blocks);
    origins[kind.origin].add(blocks.blocks * kind.block_bytes, blocks.blocks);
  }
  for (const auto& [category, sum] : categories) {
    contents.categories.push_back({std::string(category_name(snapshot, category)), "", sum.bytes, sum.blocks});
  }
  std::map<std::pair<std::string, std::string>, Sum> by_name;
  for (const auto& [origin, sum] : origins) {
    const OriginNames names = origin_names(snapshot, origin);
    by_name[{names.name, names.library}].add(sum.bytes, sum.blocks);
  }
  for (const auto& [names, sum] : by_name) {
    contents.origins.push_back({names.first, names.second, sum.bytes, sum.blocks});
  }
  for (MemoryRequest& request : groups.named()) contents.groups.push_back(std::move(request.group));
  sort_largest_first(contents.categories);
  sort_largest_first(contents.origins);
  std::ranges::stable_sort(contents.groups, std::greater<>(), &MemoryGroup::bytes);
}

std::optional<BlockContents> contents_of_block(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t moment,
                                               std::size_t begin, std::size_t end, const StopPoint& stop_point) {
  const BlockNames blocks = block_names(snapshot);
  if (blocks.forward.empty()) return std::nullopt;
  BlockContents found{.name = blocks.forward[blocks.forward.size() / 2]};
  Groups saved(snapshot, Layers::apart);
  std::vector<const BlockLife*> gradients;
  lifetimes.for_each(stop_point, [&](const BlockLife& life) {
    if (blocks.by_origin[life.origin] != found.name) return;
    const std::string_view category = category_name(snapshot, life.category);
    if (category == name(MemoryCategory::activation) && life.is_allocated(moment)) saved.add(life, true);
    const bool is_of_iteration = life.freed > begin && life.begin <= end;
    if (category == name(MemoryCategory::gradient) && is_of_iteration) gradients.push_back(&life);
  });
  MemoryShare sum{std::string(name(MemoryCategory::activation)), "", 0, 0};
  for (MemoryRequest& request : saved.named()) {
    sum.bytes += request.group.bytes;
    sum.blocks += request.group.blocks;
    found.saved.groups.push_back(std::move(request.group));
  }
  std::ranges::stable_sort(found.saved.groups, std::greater<>(), &MemoryGroup::bytes);
  const bool saves = sum.bytes > 0;
  found.saved.categories.push_back(std::move(sum));
  if (!gradients.empty()) {
    found.gradient_bytes = highest_level(gradients, [](const BlockLife& life) { return life.bytes; });
    found.requested_gradient_bytes =
        highest_level(gradients, [](const BlockLife& life) { return life.requested_bytes(); });
  }
  return saves || found.gradient_bytes ? std::optional(std::move(found)) : std::nullopt;
}

std::vector<MemoryRequest> requests_between(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t begin,
                                            std::size_t end, std::size_t moment) {
  Groups groups(snapshot);
  for (const BlockLife& life : lifetimes.recorded) {
    if (begin < life.begin && life.begin <= end) groups.add(life, life.is_allocated(moment));
  }
  std::vector<MemoryRequest> requests = groups.named();
  std::ranges::stable_sort(requests, std::greater<>(),
                           [](const MemoryRequest& request) { return request.group.block_bytes(); });
  return requests;
}

}  // namespace ridgepoint
