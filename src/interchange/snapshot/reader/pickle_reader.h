// Reads a pickle of protocol 2 to 5 that holds data only, and runs nothing: an opcode that imports, calls or builds an
// object is refused by name, with its place. Memory is bounded: entries go to the collector as they complete, even
// where one APPENDS adds millions; what the pickle may refer to later is kept in four bytes a reference.
//
// Throws Error for anything that is not a well-formed pickle of plain data, for cycles, and at the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/files/byte_stream.h"
#include "interchange/snapshot/reader/collector.h"

namespace ridgepoint {

class PickleReader {
 public:
  static constexpr std::size_t kMaxStack = std::size_t{1} << 22;
  // Eight for each entry that is read. Python refers to each dictionary, list and tuple, whether it occurs again or
  // not.
  static constexpr std::size_t kMaxMemo = SnapshotCollector::kMaxEntries * 8;
  // Numbers of references may leave out this many.
  static constexpr std::size_t kMaxMemoGap = std::size_t{1} << 16;

  PickleReader(ByteStream& bytes, SnapshotCollector& collector) : bytes_(bytes), collector_(collector) {}

  // Returns the document, which may be an open container of the collector.
  SnapshotValue read();
  int protocol() const { return protocol_; }

 private:
  using Value = SnapshotValue;
  using Kind = SnapshotValue::Kind;
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  // What a reference names, in four bytes: a kind and a number.
  enum class Tag : std::uint8_t {
    unset,
    none,
    boolean,
    number,
    text,
    other,
    no_pool,  // the pair of two zeros, which most files have in each event
    pair,
    spent,
    empty_list,
    frame,
    origin,
    event,
    trace,
    dict,
    list
  };
  static constexpr unsigned kTagShift = 28;
  static constexpr std::uint32_t kMaxCompact = (std::uint32_t{1} << kTagShift) - 1;
  static constexpr std::uint32_t tagged(Tag tag, std::uint64_t number = 0) {
    return static_cast<std::uint32_t>(tag) << kTagShift | static_cast<std::uint32_t>(number);
  }

  struct Mark {
    std::size_t begin = 0;
    bool is_flushed = false;  // items above it are already in their list
  };

  const std::uint8_t* refill(const std::uint8_t* at);
  const std::uint8_t* step(std::uint8_t opcode, const std::uint8_t* at);
  const std::uint8_t* step_rare(std::uint8_t opcode, const std::uint8_t* at);
  void step_container(std::uint8_t opcode);
  const std::uint8_t* read_text(const std::uint8_t* at, std::uint64_t size);
  const std::uint8_t* skip_bytes(const std::uint8_t* at, std::uint64_t size);
  const std::uint8_t* read_long(const std::uint8_t* at, std::uint64_t size);

  void push(Value value) { stack_.push_back(value); }
  void push_integer(std::int64_t number) { stack_.push_back({Kind::integer, 0, number}); }
  Mark pop_mark();
  std::size_t pop_whole_mark();
  void discard_from(std::size_t begin);
  void close_tuple(std::size_t begin);
  Value open_dict();
  Value open_list();
  Value set(Value dict, Value key, Value item);
  Value append(Value list, Value item);
  void append_items(std::size_t begin);
  void set_items(std::size_t begin);
  void build_list(std::size_t begin);
  void build_dict(std::size_t begin);
  void flush_items();

  void memoize(std::size_t index);
  // Pushes what a reference names; frames and texts, which are most of a file, without a detour.
  void recall(std::size_t index) {
    const std::uint32_t slot = index < memo_.size() ? memo_[index] : 0;
    const Tag tag = static_cast<Tag>(slot >> kTagShift);
    if (tag == Tag::frame) return push({Kind::frame, slot & kMaxCompact, 0});
    if (tag == Tag::text) return push({Kind::text, slot & kMaxCompact, 0});
    recall_other(index);
  }
  void recall_other(std::size_t index);
  void remember_offset();
  void complete(std::uint32_t id, bool is_list);
  bool is_item(std::size_t place) const;
  std::uint32_t compact(Value value);
  void note_closed(Value container, Value closed);

  [[noreturn]] void refuse(const std::string& problem) const;
  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const;

  ByteStream& bytes_;
  SnapshotCollector& collector_;
  std::vector<Value> stack_;
  std::vector<Mark> marks_;
  std::vector<std::uint32_t> memo_;
  std::vector<std::int64_t> memo_numbers_;   // numbers that references name
  std::vector<std::uint32_t> slot_of_dict_;  // the reference to each open container, by its number
  std::vector<std::uint32_t> slot_of_list_;
  // The opcode that is executed, for messages: where it lies in the buffer, or its offset once the buffer has moved on.
  const std::uint8_t* opcode_at_ = nullptr;
  std::uint64_t opcode_offset_ = 0;
  int protocol_ = 0;
};

}  // namespace ridgepoint
