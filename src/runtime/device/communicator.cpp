#include "runtime/device/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/text/units.h"

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

std::string describe_collective(const KernelSpec& spec) {
  std::size_t bytes = 0;
  const std::size_t first_sent = spec.inputs.size() - spec.outputs.size();  // ops/collectives.h
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    const TensorLayout& sent = spec.inputs[first_sent + i];
    bytes +=
        std::max(TensorType{sent.dtype, sent.shape}.bytes(), TensorType{sent.dtype, spec.outputs[i].shape}.bytes());
  }
  std::string text = fmt::format("{} of {}", name(spec.node.op), format_bytes(bytes));
  if (spec.node.attributes.contains("bucket"))
    text += fmt::format(" (bucket {})", spec.node.attributes.get<std::int64_t>("bucket"));
  return text;
}

std::string describe_hang(std::string_view collective, double limit_seconds) {
  return fmt::format("{} did not end within {:g} s: another rank hangs, has ended or computes something else",
                     collective, limit_seconds);
}

}  // namespace ridgepoint
