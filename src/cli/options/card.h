// --card: plans for a GPU that this machine need not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/options/run_options.h"
#include "predict/cards/datasheet.h"

namespace ridgepoint::cli {

// Of a card, for the CUDA context and other programs.
inline constexpr std::string_view kKeptFree = "1GiB";
// The bytes of a card's memory that a run may take: all but `kept_free`, usually kKeptFree; at least 0.
std::int64_t usable_bytes(const Datasheet& card, std::optional<std::uint64_t> kept_free = {});

// The names of all cards, oldest first.
std::vector<std::string_view> card_names();
// The card of that name. Throws Error (usage), which suggests the nearest.
const Datasheet& card_named(std::string_view name);

// Makes the null device of a draft that card: its kernels, and its memory as the limit unless there is a smaller one.
// Throws Error (usage) for another device, and for a card that no kernel runs on.
void settle_card(RunDraft& draft, bool has_device);

}  // namespace ridgepoint::cli
