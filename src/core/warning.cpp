#include "core/warning.h"

#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace ridgepoint {
namespace {

struct Warnings {
  std::mutex mutex;
  std::function<void(std::string_view)> handler;
  std::set<std::string, std::less<>> topics;
};

Warnings& warnings() {
  static Warnings instance;
  return instance;
}

}  // namespace

void set_warning_handler(std::function<void(std::string_view message)> handler) {
  const std::lock_guard lock(warnings().mutex);
  warnings().handler = std::move(handler);
  warnings().topics.clear();
}

void warn_once(std::string_view topic, std::string_view message) {
  Warnings& all = warnings();
  const std::lock_guard lock(all.mutex);
  if (all.handler && all.topics.emplace(topic).second) all.handler(message);
}

}  // namespace ridgepoint
