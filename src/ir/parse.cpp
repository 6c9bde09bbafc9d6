// Reads the text form of a graph (print.cpp). The text is untrusted: every index is checked and sizes are limited. The
// result passes verify(); otherwise the parser throws Error with line and column.
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/text/nearest.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxListItems = 65536;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > kMaxTextBytes)
      throw Error("a graph text of " + std::to_string(text.size()) + " bytes is over the limit of 256 MiB");
  }

  Graph parse() {
    skip_blank_lines();
    expect_word("graph");
    graph_.name = quoted();
    end_line();
    for (skip_blank_lines(); !at_end(); skip_blank_lines()) statement();
    verify(graph_);
    return std::move(graph_);
  }

 private:
  void statement() {
    if (peek() == '%') return node();
    statement(word());
  }

  void statement(std::string_view keyword) {
    if (keyword == "output") {
      output();
    } else if (keyword == "update") {
      const Value target = value_use();
      graph_.add_update(target, value_use());
    } else {
      fail("expected a node, 'output' or 'update', found '" + std::string(keyword) + "'");
    }
    end_line();
  }

  // "output NAME %ID [ROLE] [OF]"
  void output() {
    Output made{quoted(), {}};
    made.value = value_use();
    skip_spaces();
    if (is_letter(peek())) {
      const std::string_view text = word();
      const std::optional<OutputRole> role = output_role_from_name(text);
      if (!role) fail("'" + std::string(text) + "' is not a role of an output");
      made.role = *role;
      skip_spaces();
    }
    if (peek() == '"') made.of = quoted();
    graph_.add_output(std::move(made));
  }

  void node() {
    std::vector<std::uint32_t> ids;
    std::vector<TensorType> types;
    do {
      ids.push_back(value_id());
      expect(':');
      types.push_back(tensor_type());
    } while (accept(','));
    expect('=');
    const Op op = op_name();
    const std::vector<Value> inputs = operands();
    Attributes attributes = accept('{') ? attribute_list() : Attributes();
    expect('@');
    graph_.set_phase(phase());
    graph_.set_scope(quoted());
    graph_.set_source(quoted());
    const std::optional<Op> node_origin = origin();
    end_line();
    const NodeId made = graph_.add_node(op, inputs, types, std::move(attributes));
    graph_.node(made).origin = node_origin;
    if (op == Op::fused) graph_.node(made).body = body();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!values_.emplace(ids[i], graph_.node(made).outputs[i]).second)
        fail("%" + std::to_string(ids[i]) + " is defined twice");
    }
  }

  // From "body" to "end". verify() rejects a fused node in a body; to nest deeper is not possible either.
  std::shared_ptr<const FusedBody> body() {
    if (in_body_) fail("a body cannot contain a fused node");
    in_body_ = true;
    Graph outer = std::exchange(graph_, Graph());
    std::unordered_map<std::uint32_t, Value> outer_values = std::exchange(values_, {});
    skip_blank_lines();
    expect_word("body");
    graph_.name = quoted();
    end_line();
    for (;;) {
      skip_blank_lines();
      if (peek() == '%') {
        node();
        continue;
      }
      const std::string_view keyword = word();
      if (keyword == "end") break;
      statement(keyword);
    }
    end_line();
    in_body_ = false;
    values_ = std::move(outer_values);
    return std::make_shared<const FusedBody>(std::exchange(graph_, std::move(outer)));
  }

  Op op_name() {
    const std::string_view text = word();
    if (const auto op = op_from_name(text)) return *op;
    fail("unknown op '" + std::string(text) + "'" + hint(text, names_of(kAllOps)));
  }

  std::vector<Value> operands() {
    std::vector<Value> inputs;
    expect('(');
    if (accept(')')) return inputs;
    do {
      if (inputs.size() == kMaxListItems) fail("a node has more than 65536 operands");
      inputs.push_back(value_use());
    } while (accept(','));
    expect(')');
    return inputs;
  }

  std::optional<Op> origin() {
    const std::size_t begin = position_;
    if (word() != "from") {
      position_ = begin;
      return std::nullopt;
    }
    const Op op = op_name();
    if (op_class(op) != OpClass::composite && op != Op::matmul)  // a fused node may begin with a product
      fail("the origin of a node must be a composite op or matmul; '" + std::string(name(op)) + "' is neither");
    return op;
  }

  Phase phase() {
    const std::string_view text = word();
    if (const std::optional<Phase> phase = phase_named(text)) return *phase;
    fail("unknown phase '" + std::string(text) + "'");
  }

  TensorType tensor_type() {
    TensorType type;
    try {
      type.dtype = dtype_from_name(word());
    } catch (const Error& error) {
      fail(error.what());
    }
    expect('[');
    std::vector<Dim> dims;
    if (!accept(']')) {
      do {
        if (dims.size() == static_cast<std::size_t>(kMaxRank))
          fail("a shape has more than " + std::to_string(kMaxRank) + " dimensions");
        skip_spaces();
        Dim dim;
        if (is_letter(peek())) dim.label = text_[position_++];
        dim.size = integer();
        dims.push_back(dim);
      } while (accept(','));
      expect(']');
    }
    try {
      type.shape = Shape(dims);
      (void)type.bytes();
    } catch (const Error& error) {
      fail(error.what());
    }
    return type;
  }

  Attributes attribute_list() {
    Attributes attributes;
    do {
      const std::string key(word());
      if (key.empty()) fail("expected an attribute name");
      if (attributes.contains(key)) fail("attribute '" + key + "' is given twice");
      expect('=');
      attributes.set(key, attribute_value());
    } while (accept(','));
    expect('}');
    return attributes;
  }

  AttributeValue attribute_value() {
    skip_spaces();
    if (peek() == '"') return quoted();
    if (accept('[')) return integer_list();
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || is_digit(text_[position_]) || text_[position_] == '.' ||
            text_[position_] == '-' || text_[position_] == '+')) {
      ++position_;
    }
    const std::string_view token = text_.substr(begin, position_ - begin);
    if (token == "true") return true;
    if (token == "false") return false;
    return number(token);
  }

  AttributeValue number(std::string_view token) {
    const char* end = token.data() + token.size();
    std::int64_t whole = 0;
    if (const auto [at, code] = std::from_chars(token.data(), end, whole); code == std::errc() && at == end)
      return whole;
    double real = 0;
    if (const auto [at, code] = std::from_chars(token.data(), end, real); code == std::errc() && at == end) return real;
    fail("expected a value, found '" + std::string(token) + "'");
  }

  std::vector<std::int64_t> integer_list() {
    std::vector<std::int64_t> values;
    if (accept(']')) return values;
    do {
      if (values.size() == kMaxListItems) fail("a list has more than 65536 items");
      values.push_back(integer());
    } while (accept(','));
    expect(']');
    return values;
  }

  std::int64_t integer() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [at, code] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (code != std::errc()) fail("expected an integer that fits 64 bits");
    position_ = static_cast<std::size_t>(at - text_.data());
    return value;
  }

  std::uint32_t value_id() {
    expect('%');
    const std::int64_t id = is_digit(peek()) ? integer() : -1;
    if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) fail("expected a value number after '%'");
    return static_cast<std::uint32_t>(id);
  }

  Value value_use() {
    const std::uint32_t id = value_id();
    const auto at = values_.find(id);
    if (at == values_.end()) fail("%" + std::to_string(id) + " is used before it is defined");
    return at->second;
  }

  std::string quoted() {
    expect('"');
    std::string out;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') fail("a string does not end");
      char c = text_[position_++];
      if (c == '\\') c = escape();
      out += c;
    }
    ++position_;
    return out;
  }

  char escape() {
    if (at_end()) fail("a string does not end");
    const char c = text_[position_++];
    if (c != 'x') return c;
    unsigned code = 0;
    const char* begin = text_.data() + position_;
    if (text_.size() - position_ < 2) fail("a string does not end");
    const auto [at, error] = std::from_chars(begin, begin + 2, code, 16);
    if (error != std::errc() || at != begin + 2) fail("expected two hexadecimal digits after \\x");
    position_ += 2;
    return static_cast<char>(code);
  }

  std::string_view word() {
    skip_spaces();
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || is_digit(text_[position_]) || text_[position_] == '_'))
      ++position_;
    return text_.substr(begin, position_ - begin);
  }

  void expect_word(std::string_view expected) {
    if (word() != expected) fail("expected '" + std::string(expected) + "'");
  }
  bool accept(char c) {
    skip_spaces();
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  void end_line() {
    skip_spaces();
    if (!at_end() && peek() != '\n') fail("expected the end of the line");
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++position_;
  }
  void skip_blank_lines() {
    while (peek() == '\n' || peek() == ' ' || peek() == '\t' || peek() == '\r') ++position_;
  }
  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, std::min(position_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n');
    const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    throw Error("graph text, line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

  std::string_view text_;
  std::size_t position_ = 0;
  Graph graph_;
  bool in_body_ = false;
  std::unordered_map<std::uint32_t, Value> values_;
};

}  // namespace

Graph parse_graph(std::string_view text) {
  Graph graph = Parser(text).parse();
  graph.set_phase(Phase::forward);
  graph.set_scope("");
  graph.set_source("");
  return graph;
}

}  // namespace ridgepoint
