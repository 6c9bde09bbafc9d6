// Small files that save the next process some work: compiled kernels, chosen algorithms. One file an entry, written
// whole or not at all, so any number of processes may share a folder without locks. A cache is a convenience: an
// entry that is damaged counts as missing, and a folder that cannot be written, or that others can write to, costs one
// warning (core/warning.h) that says what to do.
//
// Entries are believed, machine code among them: the folders are this user's alone (core/files/private_folder.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint {

class DiskCache {
 public:
  // In $XDG_CACHE_HOME, else ~/.cache; with neither variable set nothing is kept.
  static DiskCache in_user_folder(std::string_view name);
  // In `base`/ridgepoint/`name`. An empty `base` keeps nothing.
  DiskCache(std::filesystem::path base, std::string_view name);

  // The contents stored under exactly this key. Never throws for what it finds on disk.
  std::optional<std::string> load(std::string_view key) const;
  // Creates the folders where needed. Never throws for what it finds on disk.
  void store(std::string_view key, std::string_view contents) const;

  // Where an entry lives, for tests and messages.
  std::filesystem::path path_of(std::string_view key) const;

 private:
  std::filesystem::path base_;
  std::filesystem::path levels_;  // below it, this program's own
};

}  // namespace ridgepoint
