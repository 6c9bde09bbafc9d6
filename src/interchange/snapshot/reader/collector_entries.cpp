// The entries of a snapshot, made of the fields of closed dictionaries.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/text/throw_error.h"
#include "interchange/snapshot/reader/collector.h"

namespace ridgepoint {
namespace {

using Value = SnapshotValue;
using Kind = SnapshotValue::Kind;

// No device has more memory; sums of sizes stay far from 64 bits.
constexpr std::int64_t kMaxSizeBytes = std::int64_t{1} << 48;

bool is_number(Value value) { return value.kind == Kind::integer || value.kind == Kind::real; }
bool is_size(Value value) { return is_number(value) && value.number >= 0 && value.number <= kMaxSizeBytes; }
bool is_true(Value value) { return (value.kind == Kind::boolean || is_number(value)) && value.number != 0; }

std::uint64_t unsigned_number(Value value) { return static_cast<std::uint64_t>(value.number); }

// For times: the differences of two of them fit.
std::int64_t bounded_time(std::int64_t time_us) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  return std::clamp(time_us, -kMost, kMost);
}

std::uint32_t origin_of(Value frames, Value history = {}) {
  if (frames.kind == Kind::origin) return frames.id;
  return history.kind == Kind::block_history ? history.id : kNoOrigin;
}

}  // namespace

SnapshotValue SnapshotCollector::close_dict(std::uint32_t id) {
  const Dict& dict = dicts_[id];
  const SnapshotValue entry = entry_of(dict);
  if (!dict.unknown.empty() && entry.kind != Kind::other && entry.kind != Kind::settings) count_unknown_fields(dict);
  return entry;
}

// The fields decide what a dictionary is.
SnapshotValue SnapshotCollector::entry_of(const Dict& dict) {
  using Key = SnapshotKey;
  if (dict.has(Key::action)) return event_of(dict);
  if (dict.has(Key::filename) || (dict.has(Key::name) && dict.has(Key::line))) return frame_of(dict);
  if (dict.has(Key::blocks) || dict.has(Key::total_size)) return segment_of(dict);
  if (dict.has(Key::state)) return block_of(dict);
  if (dict.has(Key::real_size)) {
    const Value size = dict[Key::real_size];
    return {Kind::block_history, origin_of(dict[Key::frames]), is_size(size) ? size.number : 0};
  }
  if (dict.has(Key::stage)) return annotation_of(dict);
  if (dict.has(Key::segments) || dict.has(Key::device_traces)) return document_of(dict);
  if (dict.has(Key::configuration) || dict.has(Key::max_split_size) || dict.has(Key::expandable_segments) ||
      dict.has(Key::overflowed)) {
    return settings_of(dict);
  }
  return {Kind::other, 0, 0};
}

SnapshotValue SnapshotCollector::incomplete() {
  ++snapshot_.omissions.incomplete_entries;
  return {Kind::spent, 0, 0};
}

SnapshotValue SnapshotCollector::event_of(const Dict& dict) {
  const Value action = dict[SnapshotKey::action];
  const TextTraits* traits = traits_of(action);
  if (traits == nullptr) return incomplete();
  if (traits->is_snapshot) return {Kind::spent, 0, 0};
  if (traits->action == kNoName) {
    constexpr std::size_t kMostNames = 64;
    SnapshotCounts& unknown = snapshot_.omissions.unknown_actions;
    const std::string& name = snapshot_.texts[action.id];
    ++unknown[unknown.size() < kMostNames || unknown.contains(name) ? name : "(others)"];
    return {Kind::spent, 0, 0};
  }
  event_ = {};
  event_.kind = static_cast<MemoryEventKind>(traits->action);
  const bool is_oom = event_.kind == MemoryEventKind::oom;
  const Value size = dict[SnapshotKey::size];
  Value place = dict[is_oom ? SnapshotKey::device_free : SnapshotKey::addr];
  if (is_oom && !is_size(place)) place = {Kind::integer, 0, -1};
  if (!is_size(size) || !is_number(place)) return incomplete();
  event_.request.size_bytes = unsigned_number(size);
  event_.address = unsigned_number(place);
  event_.request.origin = origin_for(origin_of(dict[SnapshotKey::frames]), dict[SnapshotKey::user_metadata]);
  event_.request.category = category_of(dict[SnapshotKey::category]);
  event_.request.stream = stream_of(dict[SnapshotKey::stream], dict[SnapshotKey::pool_id]);
  const Value block = dict[SnapshotKey::block_size];
  if (is_size(block) && block.number >= size.number &&
      block.number - size.number < std::int64_t{MemoryHistory::Request::kUnknownRounding}) {
    event_.request.rounding_bytes = static_cast<std::uint32_t>(block.number - size.number);
  }
  const Value time = dict[SnapshotKey::time_us];
  if (is_number(time)) event_.time_us = bounded_time(time.number);
  return {Kind::event, 0, 0};
}

SnapshotValue SnapshotCollector::frame_of(const Dict& dict) {
  const Value filename = dict[SnapshotKey::filename];
  const Value name = dict[SnapshotKey::name];
  const Value line = dict[SnapshotKey::line];
  SnapshotFrame frame;
  if (filename.kind == Kind::text) frame.filename = filename.id;
  if (name.kind == Kind::text) frame.name = name.id;
  if (is_number(line) && line.number >= 0 && line.number <= std::numeric_limits<std::int32_t>::max()) {
    frame.line = static_cast<std::int32_t>(line.number);
  }
  const auto [found, is_new] = frame_numbers_.try_emplace(frame, static_cast<std::uint32_t>(snapshot_.frames.size()));
  if (is_new) {
    if (snapshot_.frames.size() >= kMaxFrames) throw_error("it has more than {} frames", kMaxFrames);
    snapshot_.frames.push_back(frame);
    frame_traits_.push_back(text_traits_[frame.filename].as_filename | text_traits_[frame.name].as_name);
    frame_traits_.back().is_marked = is_marked(frame);
  }
  return {Kind::frame, found->second, 0};
}

SnapshotValue SnapshotCollector::annotation_of(const Dict& dict) {
  const Value name = dict[SnapshotKey::name];
  const Value stage = dict[SnapshotKey::stage];
  const Value time = dict[SnapshotKey::time_us];
  const Value device = dict[SnapshotKey::device];
  if (name.kind != Kind::text || stage.kind != Kind::text || !is_number(time)) return incomplete();
  const std::string& which = snapshot_.texts[stage.id];
  if (which != "START" && which != "END") return incomplete();
  annotation_ = {name.id, which == "START", is_number(device) ? device.number : -1, bounded_time(time.number)};
  return {Kind::annotation, 0, 0};
}

SnapshotValue SnapshotCollector::block_of(const Dict& dict) {
  const Value size = dict[SnapshotKey::size];
  const TextTraits* state = traits_of(dict[SnapshotKey::state]);
  if (!is_size(size) || state == nullptr || state->state == kNoName) return incomplete();
  const Value address = dict[SnapshotKey::address];
  const Value requested = dict[SnapshotKey::requested_size];
  const Value history = dict[SnapshotKey::history];
  block_ = {};
  block_.address = is_number(address) ? unsigned_number(address) : 0;
  block_.size_bytes = unsigned_number(size);
  block_.state = static_cast<BlockState>(state->state);
  if (is_size(requested)) {
    block_.requested_bytes = unsigned_number(requested);
  } else if (history.kind == Kind::block_history && history.number > 0) {
    block_.requested_bytes = unsigned_number(history);
  } else {
    block_.requested_bytes = block_.size_bytes;
    if (block_.state != BlockState::inactive) ++snapshot_.omissions.blocks_without_requested_size;
  }
  block_.origin = origin_of(dict[SnapshotKey::frames], history);
  block_.category = category_of(dict[SnapshotKey::category]);
  return {Kind::block, 0, 0};
}

SnapshotValue SnapshotCollector::segment_of(const Dict& dict) {
  const Value address = dict[SnapshotKey::address];
  const Value size = dict[SnapshotKey::total_size];
  const Value device = dict[SnapshotKey::device];
  const Value blocks = dict[SnapshotKey::blocks];
  const Value type = dict[SnapshotKey::segment_type];
  segment_ = {};
  if (blocks.kind == Kind::blocks) segment_.blocks = std::move(block_lists_[blocks.id]);
  if (is_number(device)) segment_.device = device.number;
  const bool has_device = segment_.device >= 0 && segment_.device < static_cast<std::int64_t>(kMaxDevices);
  if (!is_number(address) || !is_size(size) || !has_device) return incomplete();
  segment_.address = unsigned_number(address);
  segment_.size_bytes = unsigned_number(size);
  segment_.origin = origin_of(dict[SnapshotKey::frames]);
  segment_.is_large = type.kind != Kind::text || snapshot_.texts[type.id] != "small";
  segment_.is_expandable = is_true(dict[SnapshotKey::is_expandable]);
  segment_.stream = stream_of(dict[SnapshotKey::stream], dict[SnapshotKey::segment_pool_id]);
  // Old files have no addresses of blocks; blocks cover their segment without a gap.
  std::uint64_t next = segment_.address;
  for (SnapshotBlock& block : segment_.blocks) {
    if (block.address == 0) block.address = next;
    next = block.address + block.size_bytes;
  }
  std::ranges::stable_sort(segment_.blocks, {}, &SnapshotBlock::address);
  const auto overlap = [](const SnapshotBlock& a, const SnapshotBlock& b) {
    return b.address - a.address < a.size_bytes;
  };
  if (std::ranges::adjacent_find(segment_.blocks, overlap) != segment_.blocks.end())
    throw_error("two blocks of its segment at address {:#x} overlap", segment_.address);
  return {Kind::segment, 0, 0};
}

SnapshotValue SnapshotCollector::settings_of(const Dict& dict) {
  SnapshotSettings& settings = snapshot_.settings;
  const Value text = dict[SnapshotKey::configuration];
  const Value split = dict[SnapshotKey::max_split_size];
  const Value most = dict[SnapshotKey::max_entries];
  if (text.kind == Kind::text) settings.configuration = snapshot_.texts[text.id];
  if (is_size(split) && split.number > 0) settings.max_split_bytes = split.number;
  if (is_number(most) && most.number > 0) settings.max_entries = most.number;
  settings.expandable_segments = is_true(dict[SnapshotKey::expandable_segments]);
  settings.overflowed |= is_true(dict[SnapshotKey::overflowed]);
  const Value counted_from = dict[SnapshotKey::counted_from];
  if (is_number(counted_from)) settings.counted_from_us = bounded_time(counted_from.number);
  settings.has_clock = !dict.has(SnapshotKey::has_clock) || is_true(dict[SnapshotKey::has_clock]);
  return {Kind::settings, 0, 0};
}

SnapshotValue SnapshotCollector::document_of(const Dict& dict) {
  const Value traces = dict[SnapshotKey::device_traces];
  const Value segments = dict[SnapshotKey::segments];
  snapshot_.settings.overflowed |= is_true(dict[SnapshotKey::overflowed]);
  const bool has_list = traces.kind == Kind::trace_list;
  if (!has_list && traces.kind != Kind::empty_list && dict.has(SnapshotKey::device_traces)) {
    throw Error("its field 'device_traces' is not a list with one list of events for each device");
  }
  if (dict.has(SnapshotKey::segments) && segments.kind != Kind::segments && segments.kind != Kind::empty_list) {
    throw Error("its field 'segments' is not a list of segments");
  }
  return {Kind::document, 0, has_list ? std::int64_t{traces.id} : -1};
}

std::uint32_t SnapshotCollector::intern_origin(const SnapshotOrigin& origin) {
  if (origin == SnapshotOrigin{}) return kNoOrigin;
  const auto [found, is_new] =
      origin_numbers_.try_emplace(origin, static_cast<std::uint32_t>(snapshot_.origins.size()));
  if (is_new) {
    if (snapshot_.origins.size() >= kMaxOrigins)
      throw_error("its stacks come from more than {} pairs of lines; record fewer events", kMaxOrigins);
    snapshot_.origins.push_back(origin);
  }
  return found->second;
}

// Of an event of ours, the phase and the formula stand in its metadata.
std::uint32_t SnapshotCollector::origin_for(std::uint32_t origin, SnapshotValue metadata) {
  const TextTraits* purpose = traits_of(metadata);
  if (purpose == nullptr || purpose->phase == TextTable::kEmpty) return origin;
  SnapshotOrigin whole = snapshot_.origins[origin];
  whole.phase = purpose->phase;
  whole.formula = purpose->formula;
  return intern_origin(whole);
}

std::uint8_t SnapshotCollector::category_of(SnapshotValue text) {
  if (text.kind != Kind::text) return 0;
  const auto found = category_numbers_.find(text.id);
  if (found != category_numbers_.end()) return found->second;
  constexpr std::size_t kMostCategories = 64;
  const std::string& name = snapshot_.texts[text.id];
  std::vector<std::string>& names = snapshot_.categories;
  auto at = std::ranges::find(names, name);
  if (at == names.end() && names.size() < kMostCategories) at = names.insert(at, name);
  const auto number = static_cast<std::uint8_t>(at == names.end() ? 0 : at - names.begin());
  if (category_numbers_.size() < kMostCategories) category_numbers_.emplace(text.id, number);
  return number;
}

// The number of a stream in a pool of memory. Old files name no pools, and the oldest no streams.
std::uint16_t SnapshotCollector::stream_of(SnapshotValue stream, SnapshotValue pool) {
  SnapshotStream found;
  if (is_number(stream)) found.stream = stream.number;
  if (pool.kind == Kind::pair && pool.number != 0)
    found.pool = pool_numbers_.try_emplace(pool.number, static_cast<std::uint32_t>(pool_numbers_.size())).first->second;
  std::vector<SnapshotStream>& streams = snapshot_.streams;
  if (streams[last_stream_] == found) return last_stream_;
  const auto [at, is_new] =
      stream_numbers_.try_emplace({found.stream, found.pool}, static_cast<std::uint16_t>(streams.size()));
  if (is_new && streams.size() == kMaxStreams) throw_error("it has more than {} streams", kMaxStreams);
  if (is_new) streams.push_back(found);
  return last_stream_ = at->second;
}

bool SnapshotCollector::is_marked(const SnapshotFrame& frame) const {
  if (options_.marked.empty()) return false;
  const std::string line =
      fmt::format("{} ({}:{})", snapshot_.texts[frame.name], snapshot_.texts[frame.filename], frame.line);
  return line.find(options_.marked) != std::string::npos;
}

void SnapshotCollector::count_unknown_fields(const Dict& dict) {
  constexpr std::size_t kMostNames = 64;
  SnapshotCounts& unknown = snapshot_.omissions.unknown_fields;
  for (const std::uint32_t text : dict.unknown) {
    const std::string& name = snapshot_.texts[text];
    ++unknown[unknown.size() < kMostNames || unknown.contains(name) ? name : "(others)"];
  }
}

}  // namespace ridgepoint
