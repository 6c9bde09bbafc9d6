// Parses the JSON header of a safetensors file with a SAX reader and a small state machine, which bound memory and
// nesting by what the format allows: any other token than the expected one is an Error at once.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "core/text/throw_error.h"
#include "interchange/safetensors.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

// One tensor's entry as the file has it, not yet checked.
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> data_offsets;
};

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawEntry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::start: state_ = State::tensors; return true;
      case State::tensor_value: state_ = State::fields; return true;
      case State::metadata_value: state_ = State::metadata_keys; return true;
      default: refuse("an object");
    }
  }

  bool end_object() override {
    if (state_ == State::fields) check_complete(entries.back());
    state_ = state_ == State::tensors ? State::done : State::tensors;
    return true;
  }

  bool key(string_t& text) override {
    if (state_ == State::tensors) return begin_member(text);
    if (state_ == State::fields) return begin_field(text);
    if (!seen_metadata_.insert(text).second) throw_error("its metadata has the key {} twice", quote_name(text));
    metadata.emplace_back(text, "");
    state_ = State::metadata_text;
    return true;
  }

  bool string(string_t& text) override {
    if (state_ == State::metadata_text) {
      metadata.back().second = std::move(text);
      state_ = State::metadata_keys;
    } else if (state_ == State::dtype_value) {
      entries.back().dtype = std::move(text);
      state_ = State::fields;
    } else {
      refuse("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::list_value) refuse("a list");
    list_->emplace();
    state_ = State::list_items;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::list_items) refuse("a number");
    // A longer list is neither a shape nor data_offsets; the rank is checked later, where the message can name it.
    if ((*list_)->size() > static_cast<std::size_t>(kMaxRank))
      throw_error("tensor {} has a list of more than {} numbers; the largest rank is {}",
                  quote_name(entries.back().name), kMaxRank + 1, kMaxRank);
    (*list_)->push_back(value);
    return true;
  }

  bool end_array() override {
    state_ = State::fields;
    return true;
  }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t) override { refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { refuse("a number that is not a 64-bit integer"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw_error("its header is not JSON in UTF-8: the error is at byte {}", position);
  }

 private:
  // Which tokens may come next. `start` and the states *_value and *_text expect exactly one value.
  enum class State {
    start,
    tensors,
    tensor_value,
    fields,
    dtype_value,
    list_value,
    list_items,
    metadata_value,
    metadata_keys,
    metadata_text,
    done
  };

  bool begin_member(const std::string& name) {
    if (!seen_.insert(name).second) throw_error("it has the tensor {} twice", quote_name(name));
    if (name == kSafetensorsMetadataKey) {
      state_ = State::metadata_value;
    } else {
      entries.push_back({name, {}, {}, {}});
      state_ = State::tensor_value;
    }
    return true;
  }

  bool begin_field(const std::string& field) {
    RawEntry& entry = entries.back();
    const bool is_dtype = field == "dtype";
    if (!is_dtype && field != "shape" && field != "data_offsets")
      throw_error("tensor {} has a field {}; only dtype, shape and data_offsets are allowed", quote_name(entry.name),
                  quote_name(field));
    list_ = field == "shape" ? &entry.shape : &entry.data_offsets;
    if (is_dtype ? entry.dtype.has_value() : list_->has_value())
      throw_error("tensor {} has the field {} twice", quote_name(entry.name), quote_name(field));
    state_ = is_dtype ? State::dtype_value : State::list_value;
    return true;
  }

  static void check_complete(const RawEntry& entry) {
    const char* missing = !entry.dtype          ? "dtype"
                          : !entry.shape        ? "shape"
                          : !entry.data_offsets ? "data_offsets"
                                                : nullptr;
    if (missing != nullptr) throw_error("tensor {} has no {}", quote_name(entry.name), missing);
  }

  [[noreturn]] void refuse(std::string_view found) const {
    if (state_ == State::start) throw_error("its header is {}, but must be an object", found);
    const bool in_metadata = state_ == State::metadata_value || state_ == State::metadata_text;
    const std::string where = in_metadata ? "its metadata" : "tensor " + quote_name(entries.back().name);
    std::string_view needed = "an object";
    if (state_ == State::dtype_value || state_ == State::metadata_text) needed = "a string";
    if (state_ == State::list_value) needed = "a list";
    if (state_ == State::list_items) needed = "a non-negative 64-bit integer";
    throw_error("{} has {} where {} is expected", where, found, needed);
  }

  State state_ = State::start;
  std::optional<std::vector<std::uint64_t>>* list_ = nullptr;  // shape or data_offsets of the newest entry
  std::unordered_set<std::string> seen_;
  std::unordered_set<std::string> seen_metadata_;
};

TensorType type_of(const RawEntry& raw) {
  const std::optional<DType> dtype = kSafetensorsDTypes.find(*raw.dtype);
  if (!dtype)
    throw_error("tensor {} has dtype {}; this library reads F64, F32, BF16, F16, I64, I32, BOOL, I8 and U8",
                quote_name(raw.name), quote_name(*raw.dtype));
  std::vector<Dim> dims;
  for (const std::uint64_t size : *raw.shape) {
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw_error("tensor {} has a dimension of size {}", quote_name(raw.name), size);
    dims.emplace_back(static_cast<std::int64_t>(size));
  }
  try {
    TensorType type{*dtype, Shape(std::span<const Dim>(dims))};
    type.bytes();
    return type;
  } catch (const Error& error) {
    throw_error("tensor {}: {}", quote_name(raw.name), error.what());
  }
}

SafetensorsEntry checked_entry(const RawEntry& raw, std::uint64_t data_bytes) {
  SafetensorsEntry entry{raw.name, type_of(raw), 0};
  const std::vector<std::uint64_t>& offsets = *raw.data_offsets;
  if (offsets.size() != 2)
    throw_error("tensor {} has {} data_offsets, but must have two: begin and end", quote_name(raw.name),
                offsets.size());
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes)
    throw_error("tensor {} has the data_offsets {} and {}, but the data has {} bytes; the file is truncated or corrupt",
                quote_name(raw.name), offsets[0], offsets[1], data_bytes);
  if (offsets[1] - offsets[0] != entry.type.bytes())
    throw_error("tensor {} is {}, which takes {} bytes, but its data_offsets span {}", quote_name(raw.name),
                entry.type.to_string(), entry.type.bytes(), offsets[1] - offsets[0]);
  entry.offset_bytes = offsets[0];
  return entry;
}

// The tensors must cover the data exactly: no overlap, no gap, no bytes after the last one.
void check_coverage(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::ranges::sort(entries, {}, [](const SafetensorsEntry& entry) {
    return std::pair(entry.offset_bytes, entry.offset_bytes + entry.type.bytes());
  });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset_bytes != end)
      throw_error("tensor {} begins at byte {} of the data, but the tensor before it ends at byte {}: {}",
                  quote_name(entry.name), entry.offset_bytes, end,
                  entry.offset_bytes < end ? "they overlap" : "no tensor covers the gap");
    end += entry.type.bytes();
  }
  if (end != data_bytes)
    throw_error("its tensors end at byte {} of the data, but {} more bytes follow", end, data_bytes - end);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes) {
  // The JSON library would accept both: it skips a byte-order mark and ends at a NUL.
  if (!json.starts_with('{') || json.find('\0') != std::string_view::npos) {
    throw Error("its header is not a JSON object");
  }
  HeaderReader reader;
  nlohmann::json::sax_parse(json, &reader);
  SafetensorsHeader header;
  for (const RawEntry& raw : reader.entries) header.entries.push_back(checked_entry(raw, data_bytes));
  check_coverage(header.entries, data_bytes);
  std::ranges::sort(header.entries, {}, &SafetensorsEntry::name);
  header.metadata = std::move(reader.metadata);
  return header;
}

}  // namespace ridgepoint
