// Warnings: problems that do not stop the work, such as a cache that cannot be written. The library never prints; the
// program that uses it installs a handler.
#pragma once

#include <functional>
#include <string_view>

namespace ridgepoint {

// Replaces the handler. Warnings are dropped while there is none or it is empty. The handler may be called from any
// thread, one call at a time.
void set_warning_handler(std::function<void(std::string_view message)> handler);

// Calls the handler with `message`, once for each `topic`.
void warn_once(std::string_view topic, std::string_view message);

}  // namespace ridgepoint
