#include "core/enum_names.h"

#include <fmt/format.h>

#include "core/nearest.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

void refuse_name(std::string_view text, std::string_view sentence, std::span<const std::string_view> names) {
  throw Error(fmt::format(fmt::runtime(sentence), text) + hint(text, names), ErrorKind::usage);
}

}  // namespace ridgepoint
