#include "core/files/leftovers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <ctime>
#include <mutex>
#include <set>
#include <system_error>

#include "core/files/system_call.h"
#include "core/text/text.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

// What is younger may be of a process that has not locked it yet.
constexpr std::time_t kLeastAgeSeconds = 60;

bool is_first_time(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> seen;
  const std::lock_guard lock(mutex);
  return seen.insert(folder).second;
}

bool was_left(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  return file.is_open() && ::fstat(file.number(), &status) == 0 && status.st_uid == ::geteuid() &&
         std::time(nullptr) - status.st_mtime > kLeastAgeSeconds && ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
}

// Removes the number at the end of `text`, and the dot before it.
bool remove_number(std::string_view& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || !is_digits(text.substr(dot + 1))) return false;
  text = text.substr(0, dot);
  return true;
}

}  // namespace

void mark_in_use(int descriptor) { ::flock(descriptor, LOCK_EX | LOCK_NB); }

void remove_leftovers(const fs::path& folder, const std::function<bool(std::string_view name)>& is_ours) {
  std::error_code ignored;
  if (!is_first_time(fs::absolute(folder, ignored))) return;
  fs::directory_iterator entry(folder, ignored);
  for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    std::error_code failed;
    if (is_ours(entry->path().filename().string()) && was_left(entry->path())) fs::remove_all(entry->path(), failed);
  }
}

std::string temporary_name(std::string_view stem, unsigned number) {
  return fmt::format(".{}.{}.{}.tmp", stem, static_cast<long>(::getpid()), number);
}

bool is_temporary_name(std::string_view name, std::string_view stem) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return false;
  name = name.substr(1, name.size() - 1 - kEnd.size());
  return remove_number(name) && remove_number(name) && (stem.empty() || name == stem);
}

}  // namespace ridgepoint
