// Folders of one user alone, and the cache on disk in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/system_call.h"

namespace ridgepoint {

// A folder that only this process's user can write to: it has mode 0700, belongs to that user and is not a symbolic
// link. Its files are small and are written atomically.
//
// It is for files that this program executes or trusts without verification, such as machine code: another user who
// could write them could run code as this user.
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

// A cache on disk for results that take long to compute: compiled kernels, chosen algorithms. Each entry is one file,
// written atomically, so that processes may share a folder without locks. A damaged entry counts as missing. A folder
// that cannot be written to, or that other users can write to, causes one warning (core/warning.h).
//
// Entries may contain machine code and are not verified, so its folders are private.
class DiskCache {
 public:
  // In $XDG_CACHE_HOME, else in ~/.cache. Without $XDG_CACHE_HOME and $HOME nothing is stored.
  static DiskCache in_user_folder(std::string_view name);
  // In `base`/ridgepoint/`name`. With an empty `base` nothing is stored.
  DiskCache(std::filesystem::path base, std::string_view name);

  // The contents stored for this key. Problems on disk cause a warning, never an exception.
  std::optional<std::string> load(std::string_view key) const;
  // Creates the folders where needed. Problems on disk cause a warning, never an exception.
  void store(std::string_view key, std::string_view contents) const;
  // Stores where load() finds nothing that is accepted, and returns what is stored then: that of the first process, so
  // that those which compute a result at once, as ranks do, go on with the same one. Problems as for store().
  std::string store_first(std::string_view key, std::string_view contents,
                          const std::function<bool(const std::string&)>& accepts) const;

  // The path of an entry, for tests and messages.
  std::filesystem::path path_of(std::string_view key) const;

 private:
  // Whether the key has the contents now, or nothing can be stored.
  bool write(std::string_view key, std::string_view contents, bool replaces) const;

  std::filesystem::path base_;
  std::filesystem::path levels_;  // the private folders below base_
};

}  // namespace ridgepoint
