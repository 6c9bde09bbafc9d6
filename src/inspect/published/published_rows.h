// Published figures with the statements of their sources, read from the rows of data/published, which cmake/embed.cmake
// embeds. data/published/README.md has the origin of the rows, the meaning of the fields and the terms that are used
// here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/embedded_file.h"
#include "core/types/enum_names.h"

namespace ridgepoint {

// The file that a row is from.
enum class PublishedKind : std::uint8_t { step, attention, memory, profile, precision, claim };
inline constexpr auto kPublishedKindNames =
    enum_names<PublishedKind>("step", "attention", "memory", "profile", "precision", "claim");
inline constexpr std::array kAllPublishedKinds = {PublishedKind::step,      PublishedKind::attention,
                                                  PublishedKind::memory,    PublishedKind::profile,
                                                  PublishedKind::precision, PublishedKind::claim};
constexpr std::string_view name(PublishedKind kind) { return kPublishedKindNames[kind]; }

// A measured or calculated number, with the digits of the source.
struct PublishedFigure {
  std::string quantity;  // the field: forward_ms, peak_gb_as_printed
  std::string unit;      // ms, GiB, %; empty for a count or a ratio
  std::string printed;   // trailing zeros included
  double value = 0;
};

struct PublishedRow {
  PublishedKind kind = PublishedKind::step;
  std::int64_t line = 0;  // of its file, from 1
  std::string study;
  std::string table;                // of the source; of a claim, its topic
  std::optional<std::string> card;  // empty: not stated
  std::string card_basis;           // stated, elsewhere_in_document, not_stated; empty for kinds without a card
  std::string status = "ok";        // ok or oom
  std::string note;
  std::map<std::string, std::string, std::less<>> texts;   // fields with text: model, mode, dtype, compile, ...
  std::map<std::string, std::int64_t, std::less<>> sizes;  // batch, context, sequence, d, heads, layers, ...
  std::vector<PublishedFigure> figures;                    // in the order of the file

  // Empty where the source does not state it. A presumed value stands under NAME_presumed.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<std::int64_t> size(std::string_view name) const;
};

// A study as a reader knows it: unnamed_card is "a card that is not named". Others have the name of their card.
std::string_view study_words(std::string_view study);

// Of a published sum: "fp32 += fp16", or "fp32 += fp32(fp16)", where the source casts each term first. Empty for other
// rows.
std::string statement_of(const PublishedRow& row);

// The files as they are.
std::span<const EmbeddedFile> published_files();

// All rows, file after file in the order of PublishedKind. They are read at the first call.
const std::vector<PublishedRow>& published_rows();

// The rows of one file, one JSON object a line. Throws Error with the kind and the line if a row is no flat object, has
// no study or table, a status other than ok and oom, a number that is not finite, or figures that contradict each other
// (a mean below the minimum).
std::vector<PublishedRow> parse_published(PublishedKind kind, std::string_view text);

}  // namespace ridgepoint
