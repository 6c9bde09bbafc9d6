#include "interchange/snapshot/reader/collector.h"

#include <algorithm>

#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

// What a document is that is not a snapshot.
std::string_view describe(SnapshotValue::Kind kind) {
  switch (kind) {
    case SnapshotValue::Kind::trace: return "a list of events";
    case SnapshotValue::Kind::trace_list: return "a list of histories";
    case SnapshotValue::Kind::origin: return "a list of frames";
    case SnapshotValue::Kind::text: return "a string";
    case SnapshotValue::Kind::integer:
    case SnapshotValue::Kind::real: return "a number";
    default: return "something else";
  }
}

}  // namespace

std::size_t SnapshotCollector::FrameHash::operator()(const SnapshotFrame& frame) const {
  return mix_hash(mix_hash(frame.filename, frame.name), static_cast<std::uint32_t>(frame.line));
}

std::size_t SnapshotCollector::OriginHash::operator()(const SnapshotOrigin& origin) const {
  unsigned flags = 0;
  for (const bool flag :
       {origin.in_optimizer, origin.in_backward, origin.in_forward, origin.empties_cache, origin.is_marked})
    flags = flags << 1 | (flag ? 1 : 0);
  return mix_hash(mix_hash(mix_hash(origin.frame, origin.caller), origin.formula),
                  std::uint64_t{origin.phase} << 5 | flags);
}

SnapshotValue SnapshotValue::pair_of(std::int64_t first, std::int64_t second) {
  if (first == 0 && second == 0) return {Kind::pair, 0, 0};
  const std::uint64_t hash =
      mix_hash(mix_hash(1, static_cast<std::uint64_t>(first)), static_cast<std::uint64_t>(second));
  return {Kind::pair, 0, static_cast<std::int64_t>(hash >> 1 | 1)};
}

void SnapshotCollector::check_open() const {
  const std::size_t open = dicts_.size() - free_dicts_.size() + lists_.size() - free_lists_.size();
  if (open >= kMaxOpen) throw_error("it has more than {} lists and dictionaries in one another", kMaxOpen);
}

SnapshotValue SnapshotCollector::open_dict() {
  check_open();
  if (free_dicts_.empty()) {
    free_dicts_.push_back(static_cast<std::uint32_t>(dicts_.size()));
    dicts_.emplace_back();
  }
  const std::uint32_t id = free_dicts_.back();
  free_dicts_.pop_back();
  dicts_[id].present = 0;
  dicts_[id].unknown.clear();
  return {Kind::dict, id, 0};
}

SnapshotValue SnapshotCollector::open_list() {
  check_open();
  if (free_lists_.empty()) {
    free_lists_.push_back(static_cast<std::uint32_t>(lists_.size()));
    lists_.emplace_back();
  }
  const std::uint32_t id = free_lists_.back();
  free_lists_.pop_back();
  List& list = lists_[id];
  list.holds = Kind::none;
  list.storage = kNoStorage;
  list.origin = {};
  list.last_frame = kNoFrame;
  list.history = {};
  list.integer_count = 0;
  list.traces.clear();
  return {Kind::list, id, 0};
}

SnapshotValue SnapshotCollector::text(std::string_view text) {
  const std::uint32_t id = snapshot_.texts.intern(text);
  while (text_traits_.size() < snapshot_.texts.size()) {
    const std::string_view name = snapshot_.texts[static_cast<std::uint32_t>(text_traits_.size())];
    TextTraits traits;
    traits.key = find_snapshot_key(name);
    if (const auto action = kMemoryEventKindNames.find(name)) traits.action = static_cast<std::uint8_t>(*action);
    traits.is_snapshot = name == "snapshot";
    if (const auto state = kBlockStateNames.find(name)) traits.state = static_cast<std::uint8_t>(*state);
    // PyTorch's name before 2.2.
    if (name == "active_awaiting_free") traits.state = static_cast<std::uint8_t>(BlockState::active_pending_free);
    traits.as_filename = traits_of_filename(name);
    traits.as_name = traits_of_name(name);
    const BlockPurpose purpose = BlockPurpose::of(name);
    traits.phase = snapshot_.texts.intern(purpose.phase);
    traits.formula = snapshot_.texts.intern(purpose.formula);
    text_traits_.push_back(traits);
  }
  return {Kind::text, id, 0};
}

SnapshotValue SnapshotCollector::set(SnapshotValue dict, SnapshotValue key, SnapshotValue item) {
  item = close(item);
  Dict& target = dicts_[dict.id];
  const TextTraits* traits = traits_of(key);
  if (traits == nullptr) {
    ++snapshot_.omissions.misplaced_values;
  } else if (traits->key == SnapshotKey::unknown) {
    constexpr std::size_t kMostNames = 32;
    if (target.unknown.size() < kMostNames) target.unknown.push_back(key.id);
  } else {
    target.fields[static_cast<std::size_t>(traits->key)] = item;
    target.present |= std::uint64_t{1} << static_cast<unsigned>(traits->key);
  }
  return item;
}

SnapshotValue SnapshotCollector::append(SnapshotValue list, SnapshotValue item) {
  item = close(item);
  List& target = lists_[list.id];
  if (item.kind == Kind::empty_list || item.kind == Kind::trace) {
    add_trace(target, item);
    return item;
  }
  if (item.kind == Kind::past_event) {
    load_event(item.id);
    item = {Kind::event, 0, 0};
  }
  if (item.kind == Kind::integer && target.integer_count++ < target.integers.size())
    target.integers[target.integer_count - 1] = item.number;
  if (!begin_item(target, item.kind)) return item;
  switch (item.kind) {
    case Kind::frame: add_frame(target, item.id); return item;
    case Kind::block_history:
      if (target.history.kind == Kind::none) target.history = item;
      return item;
    case Kind::event: return add_event(target);
    case Kind::block: add_block(target); break;
    case Kind::segment:
      count_entries(1);
      snapshot_.segments.push_back(std::move(segment_));
      break;
    case Kind::annotation:
      check_annotations(snapshot_.annotations.size() + 1);
      snapshot_.annotations.push_back(annotation_);
      break;
    default: return item;
  }
  return {Kind::spent, 0, 0};
}

Snapshot SnapshotCollector::finish(SnapshotValue root) {
  const SnapshotValue whole = close(root);
  if (whole.kind == Kind::segments || whole.kind == Kind::empty_list) {
    snapshot_.is_segment_list = true;
  } else if (whole.kind != Kind::document) {
    throw_error(
        "it is {}, not a memory snapshot: a snapshot has the fields 'segments' and 'device_traces', "
        "or is a list of segments",
        root.kind == Kind::dict ? "a dictionary with other fields" : describe(whole.kind));
  }
  if (whole.kind == Kind::document && whole.number >= 0) {
    take_histories(trace_lists_[static_cast<std::size_t>(whole.number)]);
  }
  std::ranges::stable_sort(snapshot_.segments, {}, &SnapshotSegment::device);
  const std::size_t segment_devices =
      snapshot_.segments.empty() ? 0 : static_cast<std::size_t>(snapshot_.segments.back().device) + 1;
  const std::size_t devices = std::max({snapshot_.histories.size(), segment_devices, std::size_t{1}});
  const auto of_every_device = static_cast<std::size_t>(
      std::ranges::count_if(snapshot_.annotations, [](const SnapshotAnnotation& mark) { return mark.device < 0; }));
  check_annotations(snapshot_.annotations.size() + of_every_device * (devices - 1));
  return std::move(snapshot_);
}

// Devices may share a history; each gets its own.
void SnapshotCollector::take_histories(const std::vector<std::uint32_t>& traces) {
  std::vector<std::size_t> uses(traces_.size());
  for (const std::uint32_t trace : traces) {
    if (trace != kNoStorage && ++uses[trace] > 1) count_entries(traces_[trace].added());
  }
  for (MemoryHistory& history : traces_) history.close();
  for (const std::uint32_t trace : traces) {
    if (trace == kNoStorage) {
      snapshot_.histories.emplace_back();
    } else {
      snapshot_.histories.push_back(--uses[trace] > 0 ? traces_[trace] : std::move(traces_[trace]));
    }
  }
}

void SnapshotCollector::count_entries(std::size_t count) {
  entry_count_ += count;
  if (entry_count_ <= kMaxEntries) return;
  throw_error(
      "it has more than {} events, blocks and segments (a history that several devices share counts for "
      "each); record fewer events, by max_entries of _record_memory_history",
      kMaxEntries);
}

void SnapshotCollector::check_annotations(std::size_t count) {
  if (count <= kMaxAnnotations) return;
  throw_error(
      "it has more than {} annotations (one that names no device counts for each); record fewer steps, or "
      "annotate fewer of their parts",
      kMaxAnnotations);
}

std::size_t SnapshotCollector::append_frames(SnapshotValue list, std::span<const SnapshotValue> items) {
  List& target = lists_[list.id];
  std::size_t count = 0;
  while (count < items.size() && items[count].kind == Kind::frame && begin_item(target, Kind::frame)) {
    add_frame(target, items[count++].id);
  }
  return count;
}

SnapshotValue SnapshotCollector::close(SnapshotValue item) {
  if (item.kind == Kind::dict) {
    const SnapshotValue closed = close_dict(item.id);
    free_dicts_.push_back(item.id);
    return closed;
  }
  if (item.kind == Kind::list) {
    const SnapshotValue closed = close_list(lists_[item.id]);
    free_lists_.push_back(item.id);
    return closed;
  }
  return item;
}

SnapshotValue SnapshotCollector::close_list(List& list) {
  switch (list.holds) {
    case Kind::none: return {Kind::empty_list, 0, 0};
    case Kind::frame: return {Kind::origin, intern_origin(list.origin), 0};
    case Kind::block_history: return list.history;
    case Kind::event: return {Kind::trace, list.storage, 0};
    case Kind::trace:
      trace_lists_.push_back(std::move(list.traces));
      return {Kind::trace_list, static_cast<std::uint32_t>(trace_lists_.size() - 1), 0};
    case Kind::block: return {Kind::blocks, list.storage, 0};
    case Kind::segment: return {Kind::segments, 0, 0};
    case Kind::annotation: return {Kind::annotations, 0, 0};
    default:
      return list.integer_count == 2 ? SnapshotValue::pair_of(list.integers[0], list.integers[1])
                                     : SnapshotValue{Kind::other, 0, 0};
  }
}

// Whether the item is of the kind that the list holds. The first item decides.
bool SnapshotCollector::begin_item(List& list, Kind kind) {
  if (kind == Kind::spent) return false;
  if (list.holds == Kind::none) {
    const bool is_entry = kind >= Kind::event || kind == Kind::frame || kind == Kind::block_history;
    list.holds = is_entry ? kind : Kind::other;
    return true;
  }
  if (list.holds == kind) return true;
  if (list.holds != Kind::other) ++snapshot_.omissions.misplaced_values;
  return false;
}

void SnapshotCollector::add_frame(List& list, std::uint32_t frame) {
  if (frame == list.last_frame) return;  // a recursion
  list.last_frame = frame;
  const FrameTraits& traits = frame_traits_[frame];
  // The forward and the backward of a closure are not the optimizer's work.
  list.origin.in_optimizer |= traits.in_optimizer && !list.origin.in_forward && !list.origin.in_backward;
  list.origin.in_backward |= traits.in_backward;
  list.origin.in_forward |= traits.in_forward;
  list.origin.empties_cache |= traits.empties_cache;
  list.origin.is_marked |= traits.is_marked;
  if (traits.is_hidden) return;
  // The innermost line of Python, and of C++ where there is no other one or it was asked for.
  const auto keep = [&](std::uint32_t& kept, bool prefers_python) {
    const bool is_better = prefers_python && !traits.is_native && kept != kNoFrame && frame_traits_[kept].is_native;
    if (kept == kNoFrame || is_better) kept = frame;
  };
  keep(list.origin.frame, !options_.shows_native);
  if (!traits.is_framework) keep(list.origin.caller, true);
}

SnapshotValue SnapshotCollector::add_event(List& list) {
  count_entries(1);
  if (list.storage == kNoStorage) list.storage = new_trace();
  MemoryHistory& history = traces_[list.storage];
  if (event_runs_.empty() || event_runs_.back().trace != list.storage) {
    event_runs_.push_back({event_count_, list.storage, history.added()});
  }
  history.add(event_.kind, event_.address, event_.request, event_.time_us);
  return {Kind::past_event, static_cast<std::uint32_t>(event_count_++), 0};
}

// A file may name an event a second time, in another place.
void SnapshotCollector::load_event(std::uint32_t number) {
  const EventRun& run = *(std::ranges::upper_bound(event_runs_, number, {}, &EventRun::first) - 1);
  const MemoryHistory& history = traces_[run.trace];
  const MemoryHistory::Event event = history.added_event(run.index + number - run.first);
  event_ = {event.kind, history.address(event.place), history.request(event.request), {}};
  if (history.has_times()) event_.time_us = event.time_us;
}

void SnapshotCollector::add_block(List& list) {
  count_entries(1);
  if (list.storage == kNoStorage) {
    list.storage = static_cast<std::uint32_t>(block_lists_.size());
    block_lists_.emplace_back();
  }
  block_lists_[list.storage].push_back(block_);
}

// A history in the list of the histories of all devices; an empty list is one without events.
void SnapshotCollector::add_trace(List& list, SnapshotValue item) {
  if (list.holds == Kind::none) list.holds = Kind::trace;
  if (list.holds != Kind::trace) return;
  if (list.traces.size() >= kMaxDevices) throw_error("it has more than {} devices", kMaxDevices);
  count_entries(1);
  list.traces.push_back(item.kind == Kind::trace ? item.id : kNoStorage);
}

std::uint32_t SnapshotCollector::new_trace() {
  if (traces_.size() == kMaxDevices)
    throw_error("it has more than {} histories; a snapshot has one for each device", kMaxDevices);
  traces_.emplace_back();
  return static_cast<std::uint32_t>(traces_.size() - 1);
}

const SnapshotCollector::TextTraits* SnapshotCollector::traits_of(SnapshotValue text) const {
  return text.kind == Kind::text ? &text_traits_[text.id] : nullptr;
}

}  // namespace ridgepoint
