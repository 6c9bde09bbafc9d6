#include "interchange/snapshot/write_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/files/file.h"
#include "interchange/snapshot/document_sink.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ErrorKind::usage); }

class SnapshotWriter {
 public:
  SnapshotWriter(const Snapshot& snapshot, DocumentSink& sink) : snapshot_(snapshot), sink_(sink) {}

  void write() {
    sink_.begin_dict();
    sink_.key("segments");
    sink_.begin_list();
    for (const SnapshotSegment& segment : snapshot_.segments) write(segment);
    sink_.end_list();
    sink_.key("device_traces");
    sink_.begin_list();
    for (const MemoryHistory& history : snapshot_.histories) write(history);
    sink_.end_list();
    write_settings();
    write_annotations();
    sink_.end_dict();
    sink_.finish();
  }

 private:
  void integer(std::string_view key, std::uint64_t value) {
    sink_.key(key);
    sink_.integer(value);
  }
  void text(std::string_view key, std::string_view value) {
    sink_.key(key);
    sink_.text(value);
  }
  void boolean(std::string_view key, bool value) {
    sink_.key(key);
    sink_.boolean(value);
  }
  void time(std::int64_t time_us) {
    integer("time_us", static_cast<std::uint64_t>(std::max<std::int64_t>(time_us, 0)));
  }
  void category(std::uint8_t number) {
    if (number >= snapshot_.categories.size())
      refuse(fmt::format("an entry has the category {}, which is none", number));
    text("category", snapshot_.categories[number]);
  }

  // Frames and stacks share one numbering of what is written once. The viewer shows each frame with its line, which is
  // 1 where there is none.
  void write_frame(std::uint32_t number) {
    if (number == kNoFrame) return;
    if (number >= snapshot_.frames.size()) refuse(fmt::format("an origin has the frame {}, which is none", number));
    const SnapshotFrame& frame = snapshot_.frames[number];
    sink_.item();
    if (sink_.begin_shared(number)) return;
    sink_.begin_dict();
    text("filename", snapshot_.texts[frame.filename]);
    integer("line", static_cast<std::uint64_t>(std::max(frame.line, 1)));
    text("name", snapshot_.texts[frame.name]);
    sink_.end_dict();
    sink_.end_shared(number);
  }

  void write_origin(std::uint32_t number) {
    if (number >= snapshot_.origins.size()) refuse(fmt::format("an entry has the origin {}, which is none", number));
    const SnapshotOrigin& origin = snapshot_.origins[number];
    sink_.key("frames");
    if (origin.around >= snapshot_.stacks.size())
      refuse(fmt::format("an origin has the stack {}, which is none", origin.around));
    const std::uint64_t shared = snapshot_.frames.size() + number;
    if (sink_.begin_shared(shared)) return;
    sink_.begin_list();
    write_frame(origin.frame);
    if (origin.caller != origin.frame) write_frame(origin.caller);
    for (const std::uint32_t frame : snapshot_.stacks[origin.around]) write_frame(frame);
    sink_.end_list();
    sink_.end_shared(shared);
  }

  void write(const SnapshotSegment& segment) {
    const std::vector<SnapshotBlock> blocks = tiled(segment);
    std::uint64_t allocated = 0, active = 0, requested = 0;
    for (const SnapshotBlock& block : blocks) {
      if (block.state == BlockState::inactive) continue;
      active += block.size_bytes;
      requested += block.requested_bytes;
      if (block.state == BlockState::active_allocated) allocated += block.size_bytes;
    }
    sink_.item();
    sink_.begin_dict();
    integer("device", static_cast<std::uint64_t>(segment.device));
    integer("address", segment.address);
    integer("total_size", segment.size_bytes);
    integer("allocated_size", allocated);
    integer("active_size", active);
    integer("requested_size", requested);
    integer("stream", 0);
    text("segment_type", segment.is_large ? "large" : "small");
    sink_.key("segment_pool_id");
    sink_.pair(0, 0);
    boolean("is_expandable", segment.is_expandable);
    write_origin(segment.origin);
    sink_.key("blocks");
    sink_.begin_list();
    for (const SnapshotBlock& block : blocks) write(block);
    sink_.end_list();
    sink_.end_dict();
  }

  void write(const SnapshotBlock& block) {
    sink_.item();
    sink_.begin_dict();
    integer("address", block.address);
    integer("size", block.size_bytes);
    integer("requested_size", block.requested_bytes);
    text("state", kBlockStateNames[block.state]);
    if (block.category != 0) category(block.category);
    write_origin(block.origin);
    sink_.end_dict();
  }

  // The viewer fails where categories are used and none of them is 'unknown'.
  void write(const MemoryHistory& history) {
    sink_.item();
    sink_.begin_list();
    bool has_unknown = false;
    std::int64_t last_us = 0;
    next_mark_ = 0;
    open_marks_ = 0;
    outermost_ = TextTable::kEmpty;
    history.walk([&](std::size_t, const MemoryHistory::Event& event) {
      const MemoryHistory::Request& request = history.request(event.request);
      has_unknown |= request.category == 0;
      last_us = event.time_us;
      if (event.kind == MemoryEventKind::free) {
        // The viewer joins the two where they follow one another.
        write(history.address(event.place), request, event.time_us, name(MemoryEventKind::free_requested));
        write(history.address(event.place), request, event.time_us, name(MemoryEventKind::free_completed));
      } else {
        write(history.address(event.place), request, event.time_us, name(event.kind));
      }
    });
    if (snapshot_.has_categories() && !has_unknown && history.size() > 0) write(0, {}, last_us, "snapshot");
    sink_.end_list();
  }

  void write(std::uint64_t address, const MemoryHistory::Request& request, std::int64_t time_us,
             std::string_view action) {
    sink_.item();
    sink_.begin_dict();
    text("action", action);
    integer(action == name(MemoryEventKind::oom) ? "device_free" : "addr", address);
    integer("size", request.size_bytes);
    if (request.rounding_bytes != MemoryHistory::Request::kUnknownRounding)
      integer("block_size", request.size_bytes + request.rounding_bytes);
    integer("stream", 0);
    time(time_us);
    text("compile_context", "N/A");
    sink_.key("pool_id");
    sink_.pair(0, 0);
    if (snapshot_.has_categories()) category(request.category);
    write_origin(request.origin);
    text("user_metadata", purpose_of(request, time_us));
    sink_.end_dict();
  }

  // Annotations are in the order of their times. One that is made at the time of an event is before it.
  std::string purpose_of(const MemoryHistory::Request& request, std::int64_t time_us) {
    for (; next_mark_ < snapshot_.annotations.size(); ++next_mark_) {
      const SnapshotAnnotation& mark = snapshot_.annotations[next_mark_];
      if (mark.time_us > time_us) break;
      if (mark.is_start && open_marks_++ == 0) outermost_ = mark.name;
      if (!mark.is_start && --open_marks_ == 0) outermost_ = TextTable::kEmpty;
    }
    const SnapshotOrigin& origin = snapshot_.origins[request.origin];
    if (origin.phase == TextTable::kEmpty || !snapshot_.has_categories()) return "";
    return BlockPurpose{snapshot_.texts[outermost_], snapshot_.texts[origin.phase],
                        snapshot_.categories[request.category], snapshot_.texts[origin.formula]}
        .text();
  }

  void write_settings() {
    const SnapshotSettings& settings = snapshot_.settings;
    sink_.key("allocator_settings");
    sink_.begin_dict();
    text("PYTORCH_CUDA_ALLOC_CONF", settings.configuration);
    boolean("expandable_segments", settings.expandable_segments);
    boolean("trace_alloc_overflowed", settings.overflowed);
    if (settings.counted_from_us)
      integer("ridgepoint_counted_from_us", static_cast<std::uint64_t>(*settings.counted_from_us));
    boolean("ridgepoint_has_clock", settings.has_clock);
    sink_.end_dict();
  }

  void write_annotations() {
    sink_.key("external_annotations");
    sink_.begin_list();
    for (const SnapshotAnnotation& annotation : snapshot_.annotations) {
      sink_.item();
      sink_.begin_dict();
      text("name", snapshot_.texts[annotation.name]);
      text("stage", annotation.is_start ? "START" : "END");
      integer("device", static_cast<std::uint64_t>(std::max<std::int64_t>(annotation.device, 0)));
      time(annotation.time_us);
      sink_.end_dict();
    }
    sink_.end_list();
  }

  const Snapshot& snapshot_;
  DocumentSink& sink_;
  // Of the annotations, while a history is written.
  std::size_t next_mark_ = 0;
  int open_marks_ = 0;
  std::uint32_t outermost_ = TextTable::kEmpty;
};

}  // namespace

std::vector<SnapshotBlock> tiled(const SnapshotSegment& segment) {
  std::vector<SnapshotBlock> blocks = segment.blocks;
  std::ranges::sort(blocks, {}, &SnapshotBlock::address);
  std::vector<SnapshotBlock> tiles;
  std::uint64_t next = segment.address;
  const std::uint64_t end = segment.address + segment.size_bytes;
  const auto fill = [&](std::uint64_t to) {
    if (to > next) tiles.push_back({.address = next, .size_bytes = to - next});
  };
  for (const SnapshotBlock& block : blocks) {
    if (block.address < next || block.size_bytes > end - std::min(end, block.address)) {
      refuse(
          fmt::format("the block of {} bytes at {:#x} overlaps another one or leaves its segment of {} bytes at {:#x}",
                      block.size_bytes, block.address, segment.size_bytes, segment.address));
    }
    fill(block.address);
    next = block.address + block.size_bytes;
    tiles.push_back(block);
  }
  fill(end);
  return tiles;
}

void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot) {
  OutputFile file(path);
  std::unique_ptr<DocumentSink> sink;
  if (path.extension() == ".json") {
    sink = std::make_unique<JsonSink>(file);
  } else {
    sink = std::make_unique<PickleSink>(file);
  }
  SnapshotWriter(snapshot, *sink).write();
  file.commit();
}

}  // namespace ridgepoint
