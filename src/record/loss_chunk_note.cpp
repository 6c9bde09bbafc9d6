#include "record/loss_chunk_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/text/units.h"

namespace ridgepoint::views {

std::string loss_chunk_note(std::span<const Record> records) {
  std::optional<std::int64_t> least, most;
  for (const Record& record : records) {
    if (!record.plan || !record.plan->loss_chunks_save_bytes) continue;
    const std::int64_t saved = *record.plan->loss_chunks_save_bytes;
    least = std::min(least.value_or(saved), saved);
    most = std::max(most.value_or(saved), saved);
  }
  if (!least || *most <= 0) return "";
  const auto text = [](std::int64_t bytes) {
    return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
  };
  const std::string saved = *least == *most ? text(*most) : fmt::format("{} to {}", text(*least), text(*most));
  return fmt::format(
      "The loss is computed for some tokens at a time, which lowers the peak by {}; --loss-chunk off keeps "
      "the logits of all tokens.",
      saved);
}

}  // namespace ridgepoint::views
