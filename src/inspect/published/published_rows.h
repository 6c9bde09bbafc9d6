// Reads the rows of data/published, which cmake/embed.cmake embeds.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/files/embedded_file.h"
#include "inspect/published/row.h"

namespace ridgepoint {

// The files as they are.
std::span<const EmbeddedFile> published_files();

// All rows, file after file in the order of PublishedKind. They are read at the first call.
const std::vector<PublishedRow>& published_rows();

// The rows of one file, one JSON object a line. Throws Error with the kind and the line if a row is no flat object, has
// no study or table, a status other than ok and oom, a number that is not finite, or figures that contradict each other
// (a mean below the minimum).
std::vector<PublishedRow> parse_published(PublishedKind kind, std::string_view text);

}  // namespace ridgepoint
