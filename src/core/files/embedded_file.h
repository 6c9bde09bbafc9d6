// A file of the source tree in the program itself, so that an installed program has it. cmake/embed.cmake embeds it.
#pragma once

#include <string_view>

namespace ridgepoint {

struct EmbeddedFile {
  std::string_view name;  // without its folder
  std::string_view text;
};

}  // namespace ridgepoint
