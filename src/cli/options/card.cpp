#include "cli/options/card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/terminal/messages.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "core/text/words.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {

std::vector<std::string_view> card_names() {
  std::vector<std::string_view> names;
  for (const Datasheet& sheet : datasheets()) names.push_back(sheet.card);
  return names;
}

std::int64_t usable_bytes(const Datasheet& card, std::optional<std::uint64_t> kept_free) {
  const auto kept = static_cast<std::int64_t>(kept_free.value_or(parse_bytes(kKeptFree)));
  return std::max<std::int64_t>(card.memory_bytes - kept, 0);
}

const Datasheet& card_named(std::string_view name) {
  if (const Datasheet* sheet = find_datasheet(name)) return *sheet;
  const std::vector<std::string_view> cards = card_names();
  std::string near = nearest(name, cards);
  // "h2000" is near the first word of "H200 SXM".
  for (std::size_t i = 0; i < cards.size() && near.empty(); ++i) {
    const std::string_view first_word = cards[i].substr(0, cards[i].find(' '));
    if (!nearest(name.substr(0, name.find(' ')), {&first_word, 1}).empty()) near = cards[i];
  }
  const std::string help =
      near.empty() ? fmt::format("available: {}.", fmt::join(cards, ", ")) : fmt::format("did you mean '{}'?", near);
  refuse("--card: '{}' is unknown; {} Give the memory of another card: --memory-limit 80GiB", name, help);
}

void settle_card(RunDraft& draft, bool has_device) {
  if (draft.card == nullptr) return;
  if (has_device && draft.config.device != "null") {
    refuse("--card plans for a card, and --device {} runs; leave one of the two out", draft.config.device);
  }
  const Datasheet& card = *draft.card;
  if (!can_describe_card(card.compute_capability)) {
    refuse(
        "--card: no kernel of this engine runs on {}, of compute capability {}.{}; give --device null --memory-limit "
        "{} for the plan of this machine's processor",
        card.card, card.compute_capability / 10, card.compute_capability % 10,
        quote_word(format_bytes(static_cast<std::uint64_t>(card.memory_bytes))));
  }
  draft.config.device = "null";
  DeviceOptions& options = draft.config.device_options;
  options.card = describe_card(card);
  if (!options.memory_limit_bytes) options.memory_limit_bytes = static_cast<std::size_t>(usable_bytes(card));
}

}  // namespace ridgepoint::cli
