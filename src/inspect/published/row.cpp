#include "inspect/published/row.h"

namespace ridgepoint {
namespace {

template <typename Map>
auto find(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<std::string> PublishedRow::text(std::string_view name) const { return find(texts, name); }
std::optional<std::int64_t> PublishedRow::size(std::string_view name) const { return find(sizes, name); }

}  // namespace ridgepoint
