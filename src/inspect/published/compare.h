// Which published rows can stand beside a run, and what of them compares. The rules are the table "What compares with
// what" of data/published/README.md.
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

// Why times of that study say nothing of times on the device: "another card (NVIDIA H200, not A800)"; empty on its
// card.
std::string other_card(std::string_view study, const std::string& device);

// The figure of a record that stands for one of a source, in the source's unit: the median for `median_ms`, the peak in
// MiB for `peak_mib`. Empty where the record has none, and for figures whose unit the source leaves open.
std::optional<double> own_figure(const Record& record, std::string_view quantity);

// The condition under which a row compares with anything, by its kind, table and study; empty if there is none.
std::string condition_of(const PublishedRow& row);

// The rows of training steps (bench, profile, memory and plan records) or of attention calls whose workload is that of
// the record, as far as the source states it, rows of the same card first. A row that states neither batch nor context
// is left out, and so are rows of which only ratios compare. A record with a setting that no source changed, such as
// checkpoints or adapters, has none. Rows stand in the order of `rows` otherwise.
std::vector<Comparable> comparable_rows(const Record& record, std::span<const PublishedRow> rows);

}  // namespace ridgepoint
