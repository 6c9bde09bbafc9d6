// A memory snapshot in a compact form: what torch.cuda.memory._dump_snapshot and `ridgepoint memory` write, and what a
// run of ours is while it is in memory. A snapshot is the state of a caching allocator at its end (segments and their
// blocks), the last events that led there (the history), and marks that the program set (annotations). Sizes are bytes,
// times are microseconds since 1970.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/types/enum_names.h"
#include "memory/memory_history.h"

namespace ridgepoint {

// The texts of a memory snapshot, each stored once and named by a number. Their number and their size are bounded,
// whatever the file has. A text is stored up to a length, because a file may name it in a million frames or phases.
class TextTable {
 public:
  static constexpr std::uint32_t kEmpty = 0;
  // Stands for every new text once the table is full.
  static constexpr std::uint32_t kNotKept = 1;
  static constexpr std::size_t kMaxStoredBytes = 1024;  // of one text
  static constexpr std::size_t kMaxTotalBytes = std::size_t{128} << 20;
  static constexpr std::size_t kMaxTexts = std::size_t{1} << 21;

  TextTable() {
    add("");
    add("(text not kept)");
  }

  std::uint32_t intern(std::string_view text) {
    text = stored_part(text);
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    if (texts_.size() >= kMaxTexts || total_bytes_ + text.size() > kMaxTotalBytes) return kNotKept;
    return add(text);
  }
  const std::string& operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  // Ends before a character of UTF-8 that does not fit.
  static std::string_view stored_part(std::string_view text) {
    if (text.size() <= kMaxStoredBytes) return text;
    std::size_t end = kMaxStoredBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end);
  }

  std::uint32_t add(std::string_view text) {
    const auto number = static_cast<std::uint32_t>(texts_.size());
    total_bytes_ += text.size();
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  std::deque<std::string> texts_;  // a deque does not move its elements
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::size_t total_bytes_ = 0;
};

enum class BlockState : std::uint8_t { active_allocated, active_pending_free, inactive };
inline constexpr auto kBlockStateNames = enum_names<BlockState>("active_allocated", "active_pending_free", "inactive");

// A line of a stack. The numbers are those of texts.
struct SnapshotFrame {
  std::uint32_t filename = 0;
  std::uint32_t name = 0;
  std::int32_t line = 0;
  bool operator==(const SnapshotFrame&) const = default;
};

inline constexpr std::uint32_t kNoFrame = UINT32_MAX;

// What is kept of a stack: `frame`, its first line that is not hidden, `caller`, its first line that belongs to no
// library, each of C++ where there is no other one, and what its lines say. Stacks that agree in these share one
// origin. `phase` and `formula` are numbers of texts, of runs of ours alone, whose first frames are named "op of
// module", or "parameter name".
struct SnapshotOrigin {
  std::uint32_t frame = kNoFrame;
  std::uint32_t caller = kNoFrame;
  std::uint32_t phase = TextTable::kEmpty;
  std::uint32_t formula = TextTable::kEmpty;  // of the bytes, 4 B H S^2
  std::uint32_t around = 0;                   // the frames around these, in Snapshot::stacks; not kept of files
  bool in_optimizer = false;
  bool in_backward = false;
  bool in_forward = false;
  bool empties_cache = false;  // the program called torch.cuda.empty_cache()
  bool is_marked = false;      // a line has the text that the reader was asked for
  bool operator==(const SnapshotOrigin&) const = default;
};

// What a reader keeps of stacks.
struct SnapshotReadOptions {
  std::string marked = {};    // origins with a line that has this text, as "name (file:line)", are marked; empty: none
  bool shows_native = false;  // SnapshotOrigin::frame is the first line of C++ before any of Python
};

// What `user_metadata` of a file of ours says of an event, as the common viewer shows it:
// "iteration 2, phase: backward, category: gradient, formula: 4 D F".
struct BlockPurpose {
  std::string_view iteration;  // the outermost annotation; empty outside all
  std::string_view phase;
  std::string_view category;
  std::string_view formula;  // empty for a workspace

  std::string text() const {
    std::string text(iteration);
    if (!text.empty()) text += ", ";
    text.append(kPhase).append(phase).append(kCategory).append(category);
    return formula.empty() ? text : text.append(kFormula).append(formula);
  }
  // The phase and the formula; both empty of other texts.
  static BlockPurpose of(std::string_view text) {
    const std::size_t phase = text.find(kPhase), category = text.find(kCategory), formula = text.find(kFormula);
    if (phase == std::string_view::npos || category == std::string_view::npos || category < phase) return {};
    const std::size_t begin = phase + kPhase.size();
    BlockPurpose purpose{.iteration = {}, .phase = text.substr(begin, category - begin), .category = {}, .formula = {}};
    if (formula != std::string_view::npos) purpose.formula = text.substr(formula + kFormula.size());
    return purpose;
  }

 private:
  static constexpr std::string_view kPhase = "phase: ", kCategory = ", category: ", kFormula = ", formula: ";
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t origin = kNoOrigin;
  BlockState state = BlockState::inactive;
  std::uint8_t category = 0;
};

// A stream, whose blocks no other stream is given, or a stream in the private pool of a captured graph.
struct SnapshotStream {
  std::int64_t stream = 0;
  std::uint32_t pool = kNoPool;  // a number of pool ids; they stand in no order

  static constexpr std::uint32_t kNoPool = 0;
  bool is_private() const { return pool != kNoPool; }
  bool operator==(const SnapshotStream&) const = default;
};

struct SnapshotSegment {
  std::int64_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t origin = kNoOrigin;
  bool is_large = false;
  bool is_expandable = false;
  std::uint16_t stream = 0;                // index in Snapshot::streams
  std::vector<SnapshotBlock> blocks = {};  // in the order of their addresses
};

// One end of a stretch of time that the program named.
struct SnapshotAnnotation {
  std::uint32_t name = 0;
  bool is_start = false;
  std::int64_t device = -1;  // -1: of every device
  std::int64_t time_us = 0;
};

struct SnapshotSettings {
  std::string configuration;  // PYTORCH_CUDA_ALLOC_CONF
  std::optional<std::int64_t> max_split_bytes;
  bool expandable_segments = false;
  bool overflowed = false;  // events were lost, because the ring buffer was full
  std::optional<std::int64_t> max_entries;
  // Of ours. Events before this time, those of the warm-up, do not count for peaks. A run that computes nothing has no
  // clock: each of its events is a microsecond.
  std::optional<std::int64_t> counted_from_us;
  bool has_clock = true;
};

// What the reader left out, by name, and how often.
using SnapshotCounts = std::map<std::string, std::uint64_t, std::less<>>;

struct SnapshotOmissions {
  SnapshotCounts unknown_fields;
  SnapshotCounts unknown_actions;
  std::uint64_t incomplete_entries = 0;  // without an address, a size or a state that makes sense
  std::uint64_t blocks_without_requested_size = 0;
  std::uint64_t misplaced_values = 0;  // where another kind of value belongs
};

struct Snapshot {
  std::string format;            // "pickle, protocol 4", "JSON", "JSON, gzip"
  bool is_segment_list = false;  // an old file: segments without a history
  TextTable texts;
  std::vector<SnapshotFrame> frames;
  std::vector<SnapshotOrigin> origins = {SnapshotOrigin{}};
  std::vector<std::vector<std::uint32_t>> stacks = {{}};  // numbers of frames, the innermost first
  std::vector<std::string> categories = {"unknown"};      // as the file names them; index 0 where it names none
  std::vector<SnapshotStream> streams = {SnapshotStream{}};
  std::vector<SnapshotSegment> segments;  // by device
  std::vector<MemoryHistory> histories;   // by device
  std::vector<SnapshotAnnotation> annotations;
  SnapshotSettings settings;
  SnapshotOmissions omissions;

  bool has_categories() const { return categories.size() > 1; }
};

}  // namespace ridgepoint
