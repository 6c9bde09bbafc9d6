#include "runtime/device/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace ridgepoint {

std::vector<std::string> ProcessGroup::all_gather(std::string_view mine, std::string_view what, TimeLimit limit) {
  std::string sent(what);
  sent.push_back('\0');
  sent += mine;
  std::vector<std::string> all = exchange(sent, what, limit);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::size_t end = std::min(all[rank].find('\0'), all[rank].size());
    if (const std::string_view theirs = std::string_view(all[rank]).substr(0, end); theirs != what) {
      throw LostRanks{fmt::format("the ranks have lost each other: rank {} exchanges {}, and rank {} {}", this->rank(),
                                  what, rank, theirs)};
    }
    all[rank].erase(0, end + 1);
  }
  return all;
}

std::string problem_of_ranks(ProcessGroup* group, const std::string& mine, std::string_view what) {
  if (group == nullptr) return mine;
  const std::vector<std::string> all = group->all_gather(mine, what);
  const auto found = std::ranges::find_if_not(all, &std::string::empty);
  return found == all.end() ? "" : *found;
}

}  // namespace ridgepoint
