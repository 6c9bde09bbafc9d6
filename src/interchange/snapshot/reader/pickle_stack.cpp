// The stack and the references of a pickle: how its containers are filled and when they are complete.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "interchange/snapshot/reader/pickle_reader.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

using Value = SnapshotValue;
using Kind = SnapshotValue::Kind;

}  // namespace

SnapshotValue PickleReader::set(Value dict, Value key, Value item) {
  if (key.is_open()) refuse("a key is a list or a dictionary");
  const Value closed = collector_.set(dict, key, item);
  if (item.is_open()) note_closed(item, closed);
  return closed;
}

SnapshotValue PickleReader::append(Value list, Value item) {
  const Value closed = collector_.append(list, item);
  if (item.is_open()) note_closed(item, closed);
  return closed;
}

PickleReader::Mark PickleReader::pop_mark() {
  if (marks_.empty()) refuse("it needs a MARK, and there is none");
  const Mark mark = marks_.back();
  marks_.pop_back();
  return mark;
}

std::size_t PickleReader::pop_whole_mark() {
  const Mark mark = pop_mark();
  if (mark.is_flushed) refuse("it takes the items that a list began to collect; only APPENDS can");
  return mark.begin;
}

void PickleReader::discard_from(std::size_t begin) {
  for (std::size_t i = begin; i < stack_.size(); ++i) {
    if (!stack_[i].is_open()) continue;
    collector_.close(stack_[i]);
    note_closed(stack_[i], {Kind::other, 0, 0});
  }
  stack_.resize(begin);
}

void PickleReader::close_tuple(std::size_t begin) {
  const bool is_pair =
      stack_.size() - begin == 2 && stack_[begin].kind == Kind::integer && stack_[begin + 1].kind == Kind::integer;
  const Value tuple =
      is_pair ? Value::pair_of(stack_[begin].number, stack_[begin + 1].number) : Value{Kind::other, 0, 0};
  discard_from(begin);
  push(tuple);
}

void PickleReader::append_items(std::size_t begin) {
  if (begin == 0 || stack_[begin - 1].kind != Kind::list) refuse("items are added to something that is not a list");
  const Value list = stack_[begin - 1];
  const std::size_t end = stack_.size();
  std::size_t i = collector_.append_frames(list, std::span(stack_).subspan(begin)) + begin;
  for (; i < end; ++i) append(list, stack_[i]);
  stack_.resize(begin);
}

void PickleReader::set_items(std::size_t begin) {
  if (begin == 0 || stack_[begin - 1].kind != Kind::dict) refuse("items are set in something that is not a dictionary");
  if ((stack_.size() - begin) % 2 != 0) refuse("a dictionary has a key without a value");
  const Value dict = stack_[begin - 1];
  for (std::size_t i = begin; i + 1 < stack_.size(); i += 2) set(dict, stack_[i], stack_[i + 1]);
  stack_.resize(begin);
}

void PickleReader::build_list(std::size_t begin) {
  const Value list = open_list();
  for (std::size_t i = begin; i < stack_.size(); ++i) append(list, stack_[i]);
  stack_.resize(begin);
  push(list);
}

void PickleReader::build_dict(std::size_t begin) {
  if ((stack_.size() - begin) % 2 != 0) refuse("a dictionary has a key without a value");
  const Value dict = open_dict();
  for (std::size_t i = begin; i + 1 < stack_.size(); i += 2) set(dict, stack_[i], stack_[i + 1]);
  stack_.resize(begin);
  push(dict);
}

SnapshotValue PickleReader::open_dict() {
  const Value dict = collector_.open_dict();
  if (slot_of_dict_.size() <= dict.id) slot_of_dict_.resize(dict.id + std::size_t{1});
  slot_of_dict_[dict.id] = kNoSlot;
  return dict;
}

SnapshotValue PickleReader::open_list() {
  const Value list = collector_.open_list();
  if (slot_of_list_.size() <= list.id) slot_of_list_.resize(list.id + std::size_t{1});
  slot_of_list_[list.id] = kNoSlot;
  return list;
}

// Where a MARK stands directly above a list, what follows are items of that list; those that are complete are added
// before APPENDS comes, which may be a gigabyte later. A dictionary is complete when a value follows that cannot be its
// key. A list may still get an item by APPEND, so it stays.
void PickleReader::flush_items() {
  if (marks_.empty()) return;
  const std::size_t begin = marks_.back().begin;
  if (begin == 0 || begin == stack_.size() || stack_[begin - 1].kind != Kind::list) return;
  std::size_t end = begin;
  while (end < stack_.size() && stack_[end].kind != Kind::list) {
    const bool has_key =
        stack_[end].kind == Kind::dict && end + 1 < stack_.size() && stack_[end + 1].kind == Kind::text;
    if (has_key) break;
    ++end;
  }
  if (end == begin) return;
  const Value list = stack_[begin - 1];
  for (std::size_t i = begin; i < end; ++i) append(list, stack_[i]);
  stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.begin() + static_cast<std::ptrdiff_t>(end));
  marks_.back().is_flushed = true;
}

void PickleReader::note_closed(Value container, Value closed) {
  const std::uint32_t slot = container.kind == Kind::dict ? slot_of_dict_[container.id] : slot_of_list_[container.id];
  if (slot != kNoSlot) memo_[slot] = compact(closed);
}

std::uint32_t PickleReader::compact(Value value) {
  if (value.id > kMaxCompact) refuse(fmt::format("it has more than {} values of a kind", kMaxCompact));
  switch (value.kind) {
    case Kind::none: return tagged(Tag::none);
    case Kind::boolean: return tagged(Tag::boolean, static_cast<std::uint64_t>(value.number));
    case Kind::integer:
    case Kind::real: memo_numbers_.push_back(value.number); return tagged(Tag::number, memo_numbers_.size() - 1);
    case Kind::pair:
      if (value.number == 0) return tagged(Tag::no_pool);
      memo_numbers_.push_back(value.number);
      return tagged(Tag::pair, memo_numbers_.size() - 1);
    case Kind::text: return tagged(Tag::text, value.id);
    case Kind::empty_list: return tagged(Tag::empty_list);
    case Kind::frame: return tagged(Tag::frame, value.id);
    case Kind::origin: return tagged(Tag::origin, value.id);
    case Kind::past_event: return tagged(Tag::event, value.id);
    case Kind::trace: return tagged(Tag::trace, value.id);
    case Kind::dict: return tagged(Tag::dict, value.id);
    case Kind::list: return tagged(Tag::list, value.id);
    case Kind::other:
    case Kind::settings: return tagged(Tag::other);
    default: return tagged(Tag::spent);
  }
}

void PickleReader::memoize(std::size_t index) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back().begin;
  if (stack_.size() <= floor) refuse("a reference is made to a value that is not there");
  if (index >= kMaxMemo || index > memo_.size() + kMaxMemoGap) {
    refuse(fmt::format("the reference {} is out of range", index));
  }
  const Value value = stack_.back();
  if (index == memo_.size()) {
    memo_.push_back(tagged(Tag::unset));
  } else if (index > memo_.size()) {
    memo_.resize(index + 1, tagged(Tag::unset));
  }
  if (value.is_open()) {
    std::uint32_t& slot = value.kind == Kind::dict ? slot_of_dict_[value.id] : slot_of_list_[value.id];
    if (slot != kNoSlot) refuse("a second reference is made to one list or dictionary");
    slot = static_cast<std::uint32_t>(index);
  }
  memo_[index] = compact(value);
}

void PickleReader::recall_other(std::size_t index) {
  const auto tag_at = [&] { return index < memo_.size() ? static_cast<Tag>(memo_[index] >> kTagShift) : Tag::unset; };
  Tag tag = tag_at();
  if (tag == Tag::dict || tag == Tag::list) {
    complete(memo_[index] & kMaxCompact, tag == Tag::list);
    tag = tag_at();
  }
  const std::uint32_t id = memo_.size() > index ? memo_[index] & kMaxCompact : 0;
  switch (tag) {
    case Tag::unset: refuse(fmt::format("the reference {} names nothing", index));
    case Tag::none: return push({Kind::none, 0, 0});
    case Tag::boolean: return push({Kind::boolean, 0, id});
    case Tag::number: return push_integer(memo_numbers_[id]);
    case Tag::no_pool: return push({Kind::pair, 0, 0});
    case Tag::pair: return push({Kind::pair, 0, memo_numbers_[id]});
    case Tag::text: return push({Kind::text, id, 0});
    case Tag::other: return push({Kind::other, 0, 0});
    case Tag::empty_list: return push({Kind::empty_list, 0, 0});
    case Tag::frame: return push({Kind::frame, id, 0});
    case Tag::origin: return push({Kind::origin, id, 0});
    case Tag::event: return push({Kind::past_event, id, 0});
    case Tag::trace: return push({Kind::trace, id, 0});
    case Tag::spent:
      refuse(fmt::format("the reference {} names a block, a segment or an annotation a second time; each occurs once",
                         index));
    case Tag::dict:
    case Tag::list:
      refuse(
          fmt::format("the reference {} names a list or dictionary that is not complete: the data is cyclic", index));
  }
}

// Closes a container that a reference names, if nothing can be added to it any more: an item of a list that a MARK
// began, or a list that is the value of a key and has another key behind it.
void PickleReader::complete(std::uint32_t id, bool is_list) {
  flush_items();
  if (!is_list) return;
  constexpr std::size_t kMostSearched = 4096;
  const std::size_t floor = stack_.size() - std::min(stack_.size(), kMostSearched);
  for (std::size_t i = stack_.size(); i-- > floor;) {
    if (stack_[i].kind != Kind::list || stack_[i].id != id) continue;
    const bool is_filled = std::ranges::binary_search(marks_, i + 1, {}, &Mark::begin);
    const bool has_next_key = i + 1 < stack_.size() && stack_[i + 1].kind == Kind::text;
    if (is_filled || !(has_next_key || is_item(i))) return;
    const Value closed = collector_.close(stack_[i]);
    note_closed(stack_[i], closed);
    stack_[i] = closed;
    return;
  }
}

// Whether the value at this place of the stack follows the newest MARK, and that stands above a list.
bool PickleReader::is_item(std::size_t place) const {
  if (marks_.empty()) return false;
  const std::size_t begin = marks_.back().begin;
  return begin > 0 && place >= begin && stack_[begin - 1].kind == Kind::list;
}

}  // namespace ridgepoint
