// A folder of this user alone, below $TMPDIR or /tmp. The destructor deletes it with its content; the constructor also
// deletes those of processes that were killed. It throws Error if the folder cannot be made.
#pragma once

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/files/leftovers.h"
#include "core/files/system_call.h"

namespace ridgepoint {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const std::filesystem::path base = std::filesystem::temp_directory_path();
    remove_leftovers(base, [](std::string_view name) {
      return name.size() == kName.size() && name.starts_with(kName.substr(0, kName.find('X')));
    });
    std::string pattern = (base / kName).string();
    if (::mkdtemp(pattern.data()) == nullptr) throw_system_error("make the folder", pattern, errno);
    path_ = pattern;
    lock_ = Descriptor(::open(pattern.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.is_open()) mark_in_use(lock_.number());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  static constexpr std::string_view kName = "ridgepoint.XXXXXX";

  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace ridgepoint
