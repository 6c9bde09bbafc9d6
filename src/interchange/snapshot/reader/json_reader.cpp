#include "interchange/snapshot/reader/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using Value = SnapshotValue;
using Kind = SnapshotValue::Kind;

// The parser keeps a token until it ends. A token is therefore bounded by what lies between two tokens.
struct Position {
  ByteStream* bytes = nullptr;
  std::uint64_t token_begin = 0;
};

// The bytes of a stream, one after the other. All copies share the stream. One that has no position is the end.
class ByteIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names of std::iterator_traits
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  ByteIterator() = default;
  explicit ByteIterator(Position& position) : position_(&position) {}

  reference operator*() const { return *reinterpret_cast<const char*>(position_->bytes->next()); }
  ByteIterator& operator++() {
    position_->bytes->set_next(position_->bytes->next() + 1);
    return *this;
  }
  bool operator!=(const ByteIterator&) const { return !at_end(); }
  bool operator==(const ByteIterator&) const { return at_end(); }

 private:
  bool at_end() const {
    ByteStream& bytes = *position_->bytes;
    if (bytes.next() != bytes.end()) return false;
    if (bytes.offset() > position_->token_begin + SnapshotCollector::kMaxTextBytes * 4) {
      throw Error(fmt::format("at byte {}: a string or number is longer than {} bytes", position_->token_begin,
                              SnapshotCollector::kMaxTextBytes));
    }
    return bytes.request(1) == 0;
  }

  Position* position_ = nullptr;
};

// Passes tokens on to the collector.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(Position& position, SnapshotCollector& collector) : position_(position), collector_(collector) {}

  Value root() const { return root_; }

  bool null() override { return add({Kind::none, 0, 0}); }
  bool boolean(bool value) override { return add({Kind::boolean, 0, value ? 1 : 0}); }
  bool number_integer(number_integer_t value) override { return add({Kind::integer, 0, value}); }
  bool number_unsigned(number_unsigned_t value) override {
    return add({Kind::integer, 0, static_cast<std::int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override {
    constexpr double kMost = 9.0e18;
    return add({Kind::real, 0, static_cast<std::int64_t>(std::clamp(value, -kMost, kMost))});
  }
  bool string(string_t& text) override { return add(collector_.text(text)); }
  bool binary(binary_t&) override { return add({Kind::other, 0, 0}); }

  bool start_object(std::size_t) override { return open(collector_.open_dict()); }
  bool start_array(std::size_t) override { return open(collector_.open_list()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    position_.token_begin = position_.bytes->offset();
    levels_.back().key = collector_.text(text);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw Error(fmt::format("it is not JSON in UTF-8, or is truncated: the error is at byte {}", position));
  }

 private:
  struct Level {
    Value container;
    Value key;
  };

  bool open(Value container) {
    position_.token_begin = position_.bytes->offset();
    levels_.push_back({container, {}});
    return true;
  }

  bool close() {
    const Value container = levels_.back().container;
    levels_.pop_back();
    return add(container);
  }

  bool add(Value value) {
    position_.token_begin = position_.bytes->offset();
    if (levels_.empty()) {
      root_ = value;
    } else if (levels_.back().container.kind == Kind::dict) {
      collector_.set(levels_.back().container, levels_.back().key, value);
    } else {
      collector_.append(levels_.back().container, value);
    }
    return true;
  }

  Position& position_;
  SnapshotCollector& collector_;
  std::vector<Level> levels_;
  Value root_;
};

}  // namespace

SnapshotValue read_snapshot_json(ByteStream& bytes, SnapshotCollector& collector) {
  Position position{&bytes, 0};
  Handler handler(position, collector);
  nlohmann::json::sax_parse(ByteIterator(position), ByteIterator(), &handler);
  return handler.root();
}

}  // namespace ridgepoint
