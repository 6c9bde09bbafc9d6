// Reading and writing of files. Writing is atomic: the bytes go to a temporary file in the target's folder, which is
// synced and then renamed to the target. Every failure throws Error with the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/files/checksum.h"
#include "core/files/direct_writes.h"
#include "core/files/system_call.h"

namespace ridgepoint {

// How long a named pipe may lack a program at its other end.
inline constexpr int kPipeMilliseconds = 2000;

// A regular file opened for reading at offsets; safe to read from several threads. Throws Error when it is missing,
// unreadable or not a regular file.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }  // when the file was opened
  // Reads into.size() bytes from `offset`. Throws Error when the file has fewer.
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_bytes_ = 0;
};

// The whole content of a file or pipe. Throws Error when it has more than `limit_bytes`, and for a pipe that no program
// opens for writing within kPipeMilliseconds.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);

// A file being written. `path` does not change before commit(); without commit() the destructor deletes the temporary
// file.
// A symbolic link is followed, also where it leads to no file yet; an existing file's permissions are kept. A target
// that is not a regular file (/dev/stdout, a named pipe) is written to directly. The constructor throws Error when the
// target cannot be written, and for a named pipe that no program opens for reading within kPipeMilliseconds. What a
// process left that was ended while it wrote is removed.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Before the first write(): about so many bytes will come. A large file goes past the page cache (direct_writes.h).
  void expect(std::uint64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  // The checksum of what is written after this call, until commit(); null ends it.
  void count_in(Checksum* checksum) { checksum_ = checksum; }
  // Syncs and renames; the last call on this object. Throws Error and leaves the target unchanged.
  void commit();

 private:
  void open_temporary();
  void begin_sending();

  std::filesystem::path path_;       // as the caller named it, for messages
  std::filesystem::path target_;     // links resolved
  std::filesystem::path temporary_;  // empty when writing directly
  Descriptor descriptor_;
  std::unique_ptr<DirectWrites> direct_;  // ends before the descriptor does
  Checksum* checksum_ = nullptr;
  std::uint64_t unsent_bytes_ = 0;  // that the system may hold back before it writes them to the disk
};

// Replaces the file at `path` atomically.
void write_file(const std::filesystem::path& path, std::string_view contents);

// Throws the Error that OutputFile would throw for `path`, and changes nothing. For a check before long work. A pipe is
// not opened, because to close it again would end the input of its reader.
void check_writable(const std::filesystem::path& path);

}  // namespace ridgepoint
