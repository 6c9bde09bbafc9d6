// A folder that nobody else can write to: made with mode 0700, owned by this process's user, no link in its place. Its
// files are small, named by this program, and appear whole or not at all.
//
// It is for files that are believed without further proof, such as machine code: what another user can write there, he
// can have run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint {

class PrivateFolder {
 public:
  // Opens `base`/`levels`, each of whose levels must be private; `base` may be anyone's and may be a link. With
  // `create` what is missing is made; without it the result is empty where something is missing. Throws Error where a
  // level is not private, saying whose it is and what to do, and where it cannot be opened.
  static std::optional<PrivateFolder> open(const std::filesystem::path& base, const std::filesystem::path& levels,
                                           bool create);
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&& other) noexcept;

  // The whole content; nullopt when there is no such file. Throws Error for what is not a file of this user's own, for
  // more than `limit_bytes`, and where reading fails.
  std::optional<std::string> read(const std::string& name, std::uint64_t limit_bytes) const;
  // Makes the file or replaces it. Throws Error, and leaves what was there before.
  void write(const std::string& name, std::string_view contents) const;

 private:
  PrivateFolder(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace ridgepoint
