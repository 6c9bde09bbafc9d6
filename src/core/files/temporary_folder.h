// A folder of this user alone, below $TMPDIR or /tmp. The destructor deletes it with its content. The constructor
// throws Error if it cannot be made.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/files/system_call.h"

namespace ridgepoint {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ridgepoint.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw_system_error("make the folder", pattern, errno);
    path_ = pattern;
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
  std::filesystem::path path_;
};

}  // namespace ridgepoint
