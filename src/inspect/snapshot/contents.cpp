#include "inspect/snapshot/contents.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "inspect/snapshot/names.h"

namespace ridgepoint {
namespace {

struct Sum {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  void add(std::uint64_t block_bytes) {
    bytes += block_bytes;
    ++blocks;
  }
};

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

MemoryContents contents_at(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t moment,
                           const StopPoint& stop_point) {
  std::map<std::uint8_t, Sum> categories;
  std::unordered_map<std::uint32_t, Sum> origins;
  MemoryContents contents;
  lifetimes.for_each(stop_point, [&](const BlockLife& life) {
    if (!life.is_allocated(moment)) return;
    categories[life.category].add(life.bytes);
    origins[life.origin].add(life.bytes);
    contents.requested_bytes += life.bytes - life.rounding_bytes;
  });
  for (const auto& [category, sum] : categories) {
    contents.categories.push_back({std::string(category_name(snapshot, category)), "", sum.bytes, sum.blocks});
  }
  // Origins that differ only in what they say of forward and backward have the same names.
  std::map<std::pair<std::string, std::string>, Sum> by_name;
  for (const auto& [origin, sum] : origins) {
    const OriginNames names = origin_names(snapshot, origin);
    Sum& named = by_name[{names.name, names.caller}];
    named.bytes += sum.bytes;
    named.blocks += sum.blocks;
  }
  for (const auto& [names, sum] : by_name) {
    contents.origins.push_back({names.first, names.second, sum.bytes, sum.blocks});
  }
  sort_largest_first(contents.categories);
  sort_largest_first(contents.origins);
  return contents;
}

}  // namespace ridgepoint
