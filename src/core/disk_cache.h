// Small files that save the next process some work: compiled kernels, chosen algorithms. One file an entry, written
// whole or not at all, so any number of processes may share a folder without locks. A cache is a convenience: an
// entry that is damaged counts as missing, and a folder that cannot be written costs one warning (core/warning.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint {

class DiskCache {
 public:
  // In $XDG_CACHE_HOME/ridgepoint, else ~/.cache/ridgepoint; with neither variable set nothing is kept.
  static DiskCache in_user_folder(std::string_view name);
  // An empty path keeps nothing.
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The contents stored under exactly this key. Never throws for what it finds on disk.
  std::optional<std::string> load(std::string_view key) const;
  // Creates the folder where needed. Never throws for what it finds on disk.
  void store(std::string_view key, std::string_view contents) const;

  // Where an entry lives, for tests and messages.
  std::filesystem::path path_of(std::string_view key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace ridgepoint
