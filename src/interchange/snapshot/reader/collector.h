// Builds a Snapshot from the values of a document in the order in which they come, and keeps none of them: a frame
// becomes a number, a stack its origin, and an entry of a history 12 bytes, as soon as each is complete. The readers of
// pickle and JSON both feed one.
//
// A dictionary's kind follows from its fields: one with `action` is an event, one with `filename` a frame, and so on.
// A small file can name one event or history millions of times, so Error is thrown at the limits below.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/types/enum_names.h"
#include "interchange/snapshot/reader/frame_rules.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// The names of fields that the reader knows. All other fields are counted and left out.
enum class SnapshotKey : std::uint8_t {
  segments,
  device_traces,
  allocator_settings,
  external_annotations,
  device,
  address,
  total_size,
  allocated_size,
  active_size,
  requested_size,
  stream,
  segment_type,
  segment_pool_id,
  is_expandable,
  frames,
  blocks,
  size,
  state,
  history,
  real_size,
  action,
  addr,
  device_free,
  time_us,
  compile_context,
  user_metadata,
  pool_id,
  category,
  block_size,
  filename,
  line,
  name,
  stage,
  configuration,
  max_split_size,
  expandable_segments,
  overflowed,
  max_entries,
  counted_from,
  has_clock,
  unknown
};

inline constexpr std::size_t kSnapshotKeyCount = static_cast<std::size_t>(SnapshotKey::unknown);

inline constexpr auto kSnapshotKeyNames = enum_names<SnapshotKey>(
    "segments", "device_traces", "allocator_settings", "external_annotations", "device", "address", "total_size",
    "allocated_size", "active_size", "requested_size", "stream", "segment_type", "segment_pool_id", "is_expandable",
    "frames", "blocks", "size", "state", "history", "real_size", "action", "addr", "device_free", "time_us",
    "compile_context", "user_metadata", "pool_id", "category", "block_size", "filename", "line", "name", "stage",
    "PYTORCH_CUDA_ALLOC_CONF", "max_split_size", "expandable_segments", "trace_alloc_overflowed",
    "trace_alloc_max_entries", "ridgepoint_counted_from_us", "ridgepoint_has_clock");

inline SnapshotKey find_snapshot_key(std::string_view name) {
  return kSnapshotKeyNames.find(name).value_or(SnapshotKey::unknown);
}

// A value of a document. Containers are open until they are added to another one; then they become what they hold.
struct SnapshotValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    other,       // a value that has no meaning here: another tuple, bytes
    pair,        // a tuple of two integers, or a list of them: the id of a pool of memory
    spent,       // a block, segment or annotation that was added to what it belongs to
    past_event,  // the same of an event
    empty_list,
    frame,
    origin,  // a list of frames
    block_history,
    trace,  // a list of events
    trace_list,
    blocks,
    segments,
    annotations,
    settings,
    document,  // its number is that of its list of histories, -1 without one
    event,     // the entries of lists
    block,
    segment,
    annotation,
    dict,  // open containers
    list
  };
  Kind kind = Kind::none;
  std::uint32_t id = 0;
  std::int64_t number = 0;  // a real is rounded towards zero

  bool is_open() const { return kind == Kind::dict || kind == Kind::list; }
  // Its number is 0 of two zeros, and another one for any other pair.
  static SnapshotValue pair_of(std::int64_t first, std::int64_t second);
};

class SnapshotCollector {
 public:
  static constexpr std::size_t kMaxOpen = 4096;  // containers that are not complete, in one another or side by side
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
  // Events, blocks, segments and histories of all devices. A history that several devices share counts for each. Real
  // files have a few million; each takes 12 to 100 bytes, and about as much again while it is analysed.
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 24;
  // One that names no device counts for each device. Each may become a phase, of 100 bytes and its name.
  static constexpr std::size_t kMaxAnnotations = std::size_t{1} << 20;
  static constexpr std::size_t kMaxFrames = std::size_t{1} << 22;
  static constexpr std::size_t kMaxOrigins = std::size_t{1} << 18;
  static constexpr std::size_t kMaxDevices = 1024;
  static constexpr std::size_t kMaxStreams = 4096;  // in all pools of memory

  explicit SnapshotCollector(SnapshotReadOptions options = {}) : options_(std::move(options)) {}

  SnapshotValue open_dict();
  SnapshotValue open_list();
  SnapshotValue text(std::string_view text);

  // Adds an item to an open container; an open item is closed by this. Returns what became of the item.
  SnapshotValue set(SnapshotValue dict, SnapshotValue key, SnapshotValue item);
  SnapshotValue append(SnapshotValue list, SnapshotValue item);
  // Appends the frames with which `items` begins; returns how many. Most values of a file are frames.
  std::size_t append_frames(SnapshotValue list, std::span<const SnapshotValue> items);
  // Closes an open container; returns what became of it. Other values stay what they are.
  SnapshotValue close(SnapshotValue item);

  // The whole document. Throws Error if it is no snapshot.
  Snapshot finish(SnapshotValue root);

 private:
  using Kind = SnapshotValue::Kind;
  static constexpr std::uint32_t kNoStorage = UINT32_MAX;
  static constexpr std::uint8_t kNoName = UINT8_MAX;

  struct Dict {
    std::uint64_t present = 0;  // a bit a key
    std::array<SnapshotValue, kSnapshotKeyCount> fields;
    std::vector<std::uint32_t> unknown;  // the first names of unknown fields

    bool has(SnapshotKey key) const { return (present >> static_cast<unsigned>(key) & 1) != 0; }
    SnapshotValue operator[](SnapshotKey key) const {
      return has(key) ? fields[static_cast<std::size_t>(key)] : SnapshotValue{};
    }
  };
  struct List {
    Kind holds = Kind::none;             // the kind of its items
    std::uint32_t storage = kNoStorage;  // index in traces_ or block_lists_
    SnapshotOrigin origin;               // of the frames so far
    std::uint32_t last_frame = kNoFrame;
    SnapshotValue history;                      // the first entry
    std::array<std::int64_t, 2> integers = {};  // the first two
    std::size_t integer_count = 0;
    std::vector<std::uint32_t> traces;  // indices in traces_; kNoStorage: one without events
  };
  struct TextTraits {
    SnapshotKey key = SnapshotKey::unknown;
    std::uint8_t action = kNoName;
    std::uint8_t state = kNoName;
    bool is_snapshot = false;  // the action of an event in which nothing is allocated or freed
    std::uint32_t phase = TextTable::kEmpty, formula = TextTable::kEmpty;  // as user_metadata of a file of ours
    FrameTraits as_filename, as_name;
  };
  struct FrameHash {
    std::size_t operator()(const SnapshotFrame& frame) const;
  };
  struct OriginHash {
    std::size_t operator()(const SnapshotOrigin& origin) const;
  };

  void check_open() const;
  SnapshotValue close_dict(std::uint32_t id);
  SnapshotValue close_list(List& list);
  SnapshotValue entry_of(const Dict& dict);
  SnapshotValue event_of(const Dict& dict);
  SnapshotValue frame_of(const Dict& dict);
  SnapshotValue annotation_of(const Dict& dict);
  SnapshotValue segment_of(const Dict& dict);
  SnapshotValue block_of(const Dict& dict);
  SnapshotValue settings_of(const Dict& dict);
  SnapshotValue document_of(const Dict& dict);

  bool begin_item(List& list, Kind kind);
  void add_frame(List& list, std::uint32_t frame);
  SnapshotValue add_event(List& list);
  void load_event(std::uint32_t number);
  void add_block(List& list);
  void add_trace(List& list, SnapshotValue item);
  std::uint32_t new_trace();
  void count_entries(std::size_t count);
  void take_histories(const std::vector<std::uint32_t>& traces);
  static void check_annotations(std::size_t count);

  const TextTraits* traits_of(SnapshotValue text) const;
  std::uint32_t intern_origin(const SnapshotOrigin& origin);
  std::uint32_t origin_for(std::uint32_t origin, SnapshotValue metadata);
  std::uint8_t category_of(SnapshotValue text);
  std::uint16_t stream_of(SnapshotValue stream, SnapshotValue pool);
  bool is_marked(const SnapshotFrame& frame) const;
  SnapshotValue incomplete();
  void count_unknown_fields(const Dict& dict);

  Snapshot snapshot_;
  SnapshotReadOptions options_;
  std::vector<TextTraits> text_traits_;
  std::deque<Dict> dicts_;
  std::deque<List> lists_;
  std::vector<std::uint32_t> free_dicts_;
  std::vector<std::uint32_t> free_lists_;

  std::deque<MemoryHistory> traces_;
  std::vector<std::vector<std::uint32_t>> trace_lists_;
  std::vector<std::vector<SnapshotBlock>> block_lists_;
  std::vector<FrameTraits> frame_traits_;
  std::unordered_map<SnapshotFrame, std::uint32_t, FrameHash> frame_numbers_;
  std::unordered_map<SnapshotOrigin, std::uint32_t, OriginHash> origin_numbers_;
  std::unordered_map<std::uint32_t, std::uint8_t> category_numbers_;  // by text
  std::unordered_map<std::int64_t, std::uint32_t> pool_numbers_ = {{0, SnapshotStream::kNoPool}};
  std::map<std::pair<std::int64_t, std::uint32_t>, std::uint16_t> stream_numbers_ = {{{0, SnapshotStream::kNoPool}, 0}};
  std::uint16_t last_stream_ = 0;
  // Where events lie, by their number in the file: one entry for those that follow one another in one history.
  struct EventRun {
    std::size_t first = 0;
    std::uint32_t trace = 0;
    std::size_t index = 0;
  };
  std::vector<EventRun> event_runs_;
  std::size_t event_count_ = 0;
  std::size_t entry_count_ = 0;

  // The entry that was closed last; the list that it belongs to takes it at once.
  struct ClosedEvent {
    MemoryEventKind kind = MemoryEventKind::alloc;
    std::uint64_t address = 0;
    MemoryHistory::Request request;
    std::optional<std::int64_t> time_us;
  };
  ClosedEvent event_;
  SnapshotBlock block_;
  SnapshotSegment segment_;
  SnapshotAnnotation annotation_;
};

}  // namespace ridgepoint
