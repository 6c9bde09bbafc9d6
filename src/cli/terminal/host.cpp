#include "cli/terminal/host.h"

#include <atomic>

#include "cli/terminal/messages.h"

namespace ridgepoint::cli {
namespace {

std::atomic<Host*> current{nullptr};

std::mutex& turn() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void Host::say(std::string_view message) {
  const std::scoped_lock lock(mutex_);
  messages.emplace_back(message);
}

Host* host() { return current; }

void require_own_process(std::string_view flag) {
  require(host() == nullptr,
          "{0} starts the program again, and this process runs another one; give {0} to `ridgepoint` on a command line",
          flag);
}

Hosted::Hosted(Host& host) : lock_(turn()) { current = &host; }
Hosted::~Hosted() { current = nullptr; }

}  // namespace ridgepoint::cli
