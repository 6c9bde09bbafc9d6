// How a document of dictionaries, lists and values is written: as a pickle or as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/files/file.h"

namespace ridgepoint {

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void begin_dict() = 0;
  virtual void key(std::string_view name) = 0;
  virtual void end_dict() = 0;
  virtual void begin_list() = 0;
  virtual void item() = 0;  // before each item of a list
  virtual void end_list() = 0;
  virtual void integer(std::uint64_t value) = 0;
  virtual void boolean(bool value) = 0;
  virtual void text(std::string_view text) = 0;
  virtual void pair(std::uint64_t first, std::uint64_t second) = 0;
  // A value that occurs often, by its number. Returns true if a reference to its first occurrence was written;
  // otherwise the caller writes the value and calls end_shared().
  virtual bool begin_shared(std::uint64_t number) = 0;
  virtual void end_shared(std::uint64_t number) = 0;
  // The last call: writes what is left.
  virtual void finish() = 0;
};

// Protocol 4, without FRAME. Texts and shared values are stored once; the references are numbered by MEMOIZE.
class PickleSink final : public DocumentSink {
 public:
  explicit PickleSink(OutputFile& file);
  void begin_dict() override;
  void key(std::string_view name) override { text(name); }
  void end_dict() override;
  void begin_list() override;
  void item() override;
  void end_list() override;
  void integer(std::uint64_t value) override;
  void boolean(bool value) override;
  void text(std::string_view text) override;
  void pair(std::uint64_t first, std::uint64_t second) override;
  bool begin_shared(std::uint64_t number) override;
  void end_shared(std::uint64_t number) override;
  void finish() override;

 private:
  template <typename Integer>
  void operand(Integer value);
  void opcode(std::uint8_t code) { buffer_.push_back(static_cast<char>(code)); }
  void recall(std::uint32_t reference);

  OutputFile& file_;
  std::string buffer_;
  std::vector<std::size_t> items_;  // of each open list, in the batch that is being written
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::unordered_map<std::uint64_t, std::uint32_t> shared_;
  std::uint32_t references_ = 0;
};

class JsonSink final : public DocumentSink {
 public:
  explicit JsonSink(OutputFile& file) : file_(file) {}
  void begin_dict() override { open('{'); }
  void key(std::string_view name) override;
  void end_dict() override { close('}'); }
  void begin_list() override { open('['); }
  void item() override { separate(); }
  void end_list() override { close(']'); }
  void integer(std::uint64_t value) override;
  void boolean(bool value) override { buffer_ += value ? "true" : "false"; }
  void text(std::string_view text) override;
  void pair(std::uint64_t first, std::uint64_t second) override;
  bool begin_shared(std::uint64_t) override { return false; }
  void end_shared(std::uint64_t) override {}
  void finish() override;

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();

  OutputFile& file_;
  std::string buffer_;
  std::vector<bool> has_items_;
};

}  // namespace ridgepoint
