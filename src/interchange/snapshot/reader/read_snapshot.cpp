#include "interchange/snapshot/reader/read_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/text/throw_error.h"
#include "interchange/snapshot/reader/pickle_reader.h"

namespace ridgepoint {
namespace {

constexpr std::uint8_t kPickleBegin = 0x80;

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
    if (bytes.offset() > position_->token_begin + SnapshotCollector::kMaxTextBytes * 4)
      throw_error("at byte {}: a string or number is longer than {} bytes", position_->token_begin,
                  SnapshotCollector::kMaxTextBytes);
    return bytes.request(1) == 0;
  }

  Position* position_ = nullptr;
};

// Passes tokens on to the collector.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(Position& position, SnapshotCollector& collector) : position_(position), collector_(collector) {}

  SnapshotValue root() const { return root_; }

  bool null() override { return add({SnapshotValue::Kind::none, 0, 0}); }
  bool boolean(bool value) override { return add({SnapshotValue::Kind::boolean, 0, value ? 1 : 0}); }
  bool number_integer(number_integer_t value) override { return add({SnapshotValue::Kind::integer, 0, value}); }
  bool number_unsigned(number_unsigned_t value) override {
    return add({SnapshotValue::Kind::integer, 0, static_cast<std::int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override {
    constexpr double kMost = 9.0e18;
    return add({SnapshotValue::Kind::real, 0, static_cast<std::int64_t>(std::clamp(value, -kMost, kMost))});
  }
  bool string(string_t& text) override { return add(collector_.text(text)); }
  bool binary(binary_t&) override { return add({SnapshotValue::Kind::other, 0, 0}); }

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
    throw_error("it is not JSON in UTF-8, or is truncated: the error is at byte {}", position);
  }

 private:
  struct Level {
    SnapshotValue container;
    SnapshotValue key;
  };

  bool open(SnapshotValue container) {
    position_.token_begin = position_.bytes->offset();
    levels_.push_back({container, {}});
    return true;
  }

  bool close() {
    const SnapshotValue container = levels_.back().container;
    levels_.pop_back();
    return add(container);
  }

  bool add(SnapshotValue value) {
    position_.token_begin = position_.bytes->offset();
    if (levels_.empty()) {
      root_ = value;
    } else if (levels_.back().container.kind == SnapshotValue::Kind::dict) {
      collector_.set(levels_.back().container, levels_.back().key, value);
    } else {
      collector_.append(levels_.back().container, value);
    }
    return true;
  }

  Position& position_;
  SnapshotCollector& collector_;
  std::vector<Level> levels_;
  SnapshotValue root_;
};

// JSON, entry by entry. Throws Error where it is not JSON, with the place. Returns the document, which is an open
// container of the collector.
SnapshotValue read_json(ByteStream& bytes, SnapshotCollector& collector) {
  Position position{&bytes, 0};
  Handler handler(position, collector);
  nlohmann::json::sax_parse(ByteIterator(position), ByteIterator(), &handler);
  return handler.root();
}

// The first byte that is neither white space nor a byte-order mark; 0 where the first bytes have none.
std::uint8_t first_significant(std::string_view begin) {
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  const std::size_t at = begin.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? 0 : static_cast<std::uint8_t>(begin[at]);
}

Snapshot read_document(ByteStream& bytes, const SnapshotReadOptions& options) {
  constexpr std::size_t kLookedAt = 1024;
  const std::size_t available = bytes.request(kLookedAt);
  if (available == 0) throw Error("it is empty");
  const std::string_view begin(reinterpret_cast<const char*>(bytes.next()), std::min(available, kLookedAt));
  SnapshotCollector collector(options);
  Snapshot snapshot;
  if (static_cast<std::uint8_t>(begin.front()) == kPickleBegin) {
    PickleReader reader(bytes, collector);
    snapshot = collector.finish(reader.read());
    snapshot.format = fmt::format("pickle, protocol {}", reader.protocol());
  } else if (const std::uint8_t first = first_significant(begin); first == '{' || first == '[') {
    snapshot = collector.finish(read_json(bytes, collector));
    snapshot.format = "JSON";
  } else {
    throw Error(
        "it is neither a pickle of protocol 2 to 5 nor JSON, plain or in gzip; torch.cuda.memory._dump_snapshot writes "
        "such a file");
  }
  if (bytes.is_compressed()) snapshot.format += ", gzip";
  return snapshot;
}

}  // namespace

Snapshot read_snapshot(const std::filesystem::path& path, const ByteStream::OnProgress& on_progress,
                       const SnapshotReadOptions& options) {
  ByteStream bytes(path, on_progress);
  try {
    return read_document(bytes, options);
  } catch (const Error& error) {
    throw_error("'{}' cannot be read as a memory snapshot: {}", path.string(), error.what());
  }
}

}  // namespace ridgepoint
