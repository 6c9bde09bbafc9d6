// A folder that only this process's user can write to: it has mode 0700, belongs to that user and is not a symbolic
// link. Its files are small and are written atomically.
//
// It is for files that this program executes or trusts without verification, such as machine code: another user who
// could write them could run code as this user.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/system_call.h"

namespace ridgepoint {

class PrivateFolder {
 public:
  // Opens `base`/`levels`. Each folder of `levels` must be private; `base` may belong to anyone and may be a link.
  // `create` creates missing folders; without it the result is empty where one is missing. Throws Error for a folder
  // that is not private, naming its owner, and for one that cannot be opened.
  static std::optional<PrivateFolder> open(const std::filesystem::path& base, const std::filesystem::path& levels,
                                           bool create);

  // The whole content; nullopt when there is no such file. Throws Error when it is not a regular file of this user or
  // is larger than `limit_bytes`, and where reading fails.
  std::optional<std::string> read(const std::string& name, std::uint64_t limit_bytes) const;
  // Creates or replaces the file. Throws Error and leaves the old file unchanged.
  void write(const std::string& name, std::string_view contents) const;
  // Creates the file, or returns false where there is one; a file system without links replaces it.
  bool write_new(const std::string& name, std::string_view contents) const;

 private:
  PrivateFolder(std::filesystem::path path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  bool write(const std::string& name, std::string_view contents, bool replaces) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace ridgepoint
