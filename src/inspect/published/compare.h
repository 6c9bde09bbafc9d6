// Finds the published rows that can stand beside a run, and the figures that compare. The rules are the table "What
// compares with what" of data/published/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/published/published_rows.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

enum class SameCard : std::uint8_t { yes, no, not_stated };

struct Comparable {
  const PublishedRow* row = nullptr;
  SameCard card = SameCard::not_stated;
  // "batch presumed; dtype not stated; time only": what the source leaves open, and its own condition.
  std::string conditions = {};
  // The same behind "same workload, other card: times not comparable".
  std::string label = {};
};

// Whether a run on the device of that name is on the card. A source may name a card less exactly than a datasheet does:
// "A800" is either of two.
SameCard same_card(const std::optional<std::string>& card, const std::string& device);

// Why times of the study do not compare with times on the device: "another card (NVIDIA H200, not A800)"; empty on the
// study's card.
std::string other_card(std::string_view study, const std::string& device);

// The figure of a record to compare with a source's figure, in the source's unit: the median for `median_ms`, the peak
// in MiB for `peak_mib`. Empty if the record has none, or if the source leaves the unit open.
std::optional<double> own_figure(const Record& record, std::string_view quantity);

// The condition under which a row compares with anything, by its kind, table and study; empty if there is none.
std::string condition_of(const PublishedRow& row);

// The rows of training steps (for bench, profile, memory and plan records) or of attention calls with the workload of
// the record, as far as the source states it. Rows of the same card come first, otherwise in the order of `rows`. Rows
// without batch and context, and rows whose ratios alone compare, are left out. A record with a setting that no source
// changed, such as checkpoints or adapters, has none.
std::vector<Comparable> comparable_rows(const Record& record, std::span<const PublishedRow> rows);

}  // namespace ridgepoint
