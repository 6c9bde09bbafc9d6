// Things that do not stop the work but that a person should hear of: a cache that cannot be written. The library
// never prints; whoever embeds it says where warnings go.
#pragma once

#include <functional>
#include <string_view>

namespace ridgepoint {

// Replaces the handler; warnings before the first one is set are dropped. It may be called from any thread, one call
// at a time. An empty function drops them again.
void set_warning_handler(std::function<void(std::string_view message)> handler);

// Hands `message` to the handler, the first time only for each `topic`.
void warn_once(std::string_view topic, std::string_view message);

}  // namespace ridgepoint
