#include "interchange/snapshot/write_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/files/file.h"
#include "interchange/snapshot/document_sink.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using Document = SnapshotDocument;

constexpr std::string_view kUnknownCategory = "unknown";

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ErrorKind::usage); }

// The blocks of a segment in order, with inactive ones where it is free.
std::vector<Document::Block> tiled(const Document::Segment& segment) {
  std::vector<Document::Block> blocks = segment.blocks;
  std::ranges::sort(blocks, {}, &Document::Block::address);
  std::vector<Document::Block> tiles;
  std::uint64_t next = segment.address;
  const std::uint64_t end = segment.address + segment.size_bytes;
  const auto fill = [&](std::uint64_t to) {
    if (to > next) tiles.push_back({.address = next, .size_bytes = to - next, .state = BlockState::inactive});
  };
  for (Document::Block& block : blocks) {
    if (block.address < next || block.size_bytes > end - std::min(end, block.address)) {
      refuse(
          fmt::format("the block of {} bytes at {:#x} overlaps another one or leaves its segment of {} bytes at {:#x}",
                      block.size_bytes, block.address, segment.size_bytes, segment.address));
    }
    fill(block.address);
    next = block.address + block.size_bytes;
    tiles.push_back(std::move(block));
  }
  fill(end);
  return tiles;
}

class DocumentWriter {
 public:
  DocumentWriter(const Document& document, DocumentSink& sink) : document_(document), sink_(sink) {
    has_categories_ = std::ranges::any_of(document.devices, [](const Document::Device& device) {
      return std::ranges::any_of(device.events, [](const Document::Event& event) { return !event.category.empty(); });
    });
  }

  void write() {
    sink_.begin_dict();
    sink_.key("segments");
    sink_.begin_list();
    for (std::size_t device = 0; device < document_.devices.size(); ++device) {
      for (const Document::Segment& segment : document_.devices[device].segments) write(segment, device);
    }
    sink_.end_list();
    sink_.key("device_traces");
    sink_.begin_list();
    for (const Document::Device& device : document_.devices) write_history(device);
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

  // Frames and stacks share one numbering of what is written once.
  void write_frame(std::uint32_t number) {
    if (number >= document_.frames.size()) refuse(fmt::format("a stack has the frame {}, which is none", number));
    if (sink_.begin_shared(number)) return;
    const Document::Frame& frame = document_.frames[number];
    sink_.begin_dict();
    text("filename", frame.filename);
    integer("line", static_cast<std::uint64_t>(std::max(frame.line, 0)));
    text("name", frame.name);
    sink_.end_dict();
    sink_.end_shared(number);
  }

  void write_stack(std::uint32_t number) {
    sink_.key("frames");
    const bool has_stack = number != Document::kNoStack;
    if (has_stack && number >= document_.stacks.size())
      refuse(fmt::format("an entry has the stack {}, which is none", number));
    const std::uint64_t shared = has_stack ? document_.frames.size() + 1 + number : document_.frames.size();
    if (sink_.begin_shared(shared)) return;
    sink_.begin_list();
    if (has_stack) {
      for (const std::uint32_t frame : document_.stacks[number]) {
        sink_.item();
        write_frame(frame);
      }
    }
    sink_.end_list();
    sink_.end_shared(shared);
  }

  void write(const Document::Segment& segment, std::size_t device) {
    const std::vector<Document::Block> blocks = tiled(segment);
    std::uint64_t allocated = 0, active = 0, requested = 0;
    for (const Document::Block& block : blocks) {
      if (block.state == BlockState::inactive) continue;
      active += block.size_bytes;
      requested += block.requested_bytes;
      if (block.state == BlockState::active_allocated) allocated += block.size_bytes;
    }
    sink_.item();
    sink_.begin_dict();
    integer("device", device);
    integer("address", segment.address);
    integer("total_size", segment.size_bytes);
    integer("allocated_size", allocated);
    integer("active_size", active);
    integer("requested_size", requested);
    integer("stream", 0);
    text("segment_type", segment.is_large ? "large" : "small");
    sink_.key("segment_pool_id");
    sink_.pair(0, 0);
    sink_.key("is_expandable");
    sink_.boolean(segment.is_expandable);
    write_stack(segment.stack);
    sink_.key("blocks");
    sink_.begin_list();
    for (const Document::Block& block : blocks) write(block);
    sink_.end_list();
    sink_.end_dict();
  }

  void write(const Document::Block& block) {
    sink_.item();
    sink_.begin_dict();
    integer("address", block.address);
    integer("size", block.size_bytes);
    integer("requested_size", block.requested_bytes);
    text("state", kBlockStateNames[block.state]);
    if (!block.category.empty()) text("category", block.category);
    write_stack(block.stack);
    sink_.end_dict();
  }

  // The viewer fails where categories are used and none of them is 'unknown'.
  void write_history(const Document::Device& device) {
    sink_.item();
    sink_.begin_list();
    bool has_unknown = false;
    for (const Document::Event& event : device.events) {
      has_unknown |= event.category.empty() || event.category == kUnknownCategory;
      if (event.action == SnapshotAction::free) {
        // The viewer joins the two where they follow one another.
        write(event, SnapshotAction::free_requested);
        write(event, SnapshotAction::free_completed);
      } else if (event.action == SnapshotAction::free_requested || event.action == SnapshotAction::free_completed) {
        refuse(fmt::format("an event has the action {}; a writer gives `free`", kSnapshotActionNames[event.action]));
      } else {
        write(event, event.action);
      }
    }
    if (has_categories_ && !has_unknown && !device.events.empty()) {
      write({.time_us = device.events.back().time_us}, SnapshotAction::snapshot);
    }
    sink_.end_list();
  }

  void write(const Document::Event& event, SnapshotAction action) {
    sink_.item();
    sink_.begin_dict();
    text("action", kSnapshotActionNames[action]);
    integer(action == SnapshotAction::oom ? "device_free" : "addr", event.address);
    integer("size", event.size_bytes);
    if (event.block_bytes > 0) integer("block_size", event.block_bytes);
    integer("stream", 0);
    integer("time_us", static_cast<std::uint64_t>(std::max<std::int64_t>(event.time_us, 0)));
    text("compile_context", "N/A");
    text("user_metadata", "");
    sink_.key("pool_id");
    sink_.pair(0, 0);
    if (has_categories_) text("category", event.category.empty() ? kUnknownCategory : event.category);
    write_stack(event.stack);
    sink_.end_dict();
  }

  void write_settings() {
    sink_.key("allocator_settings");
    sink_.begin_dict();
    text("PYTORCH_CUDA_ALLOC_CONF", document_.configuration);
    sink_.key("expandable_segments");
    sink_.boolean(false);
    sink_.key("trace_alloc_overflowed");
    sink_.boolean(document_.overflowed);
    sink_.end_dict();
  }

  void write_annotations() {
    sink_.key("external_annotations");
    sink_.begin_list();
    for (const Document::Annotation& annotation : document_.annotations) {
      sink_.item();
      sink_.begin_dict();
      text("name", annotation.name);
      text("stage", annotation.is_start ? "START" : "END");
      integer("device", annotation.device);
      integer("time_us", static_cast<std::uint64_t>(std::max<std::int64_t>(annotation.time_us, 0)));
      sink_.end_dict();
    }
    sink_.end_list();
  }

  const Document& document_;
  DocumentSink& sink_;
  bool has_categories_ = false;
};

}  // namespace

void write_snapshot(const std::filesystem::path& path, const SnapshotDocument& document) {
  OutputFile file(path);
  std::unique_ptr<DocumentSink> sink;
  if (path.extension() == ".json") {
    sink = std::make_unique<JsonSink>(file);
  } else {
    sink = std::make_unique<PickleSink>(file);
  }
  DocumentWriter(document, *sink).write();
  file.commit();
}

}  // namespace ridgepoint
