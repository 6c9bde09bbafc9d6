// A cache on disk for results that take long to compute: compiled kernels, chosen algorithms. Each entry is one file,
// written atomically, so that processes may share a folder without locks. A damaged entry counts as missing. A folder
// that cannot be written to, or that other users can write to, causes one warning (core/warning.h).
//
// Entries may contain machine code and are not verified, so only this user may write to the folders
// (core/files/private_folder.h).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint {

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
