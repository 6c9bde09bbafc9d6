#include "inspect/calculations/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <vector>

#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

enum class TokenKind : std::uint8_t { number, symbol, function, sign };
struct Token {
  TokenKind kind;
  std::string_view text;
  std::size_t begin;  // in the formula
};

struct Function {
  std::string_view name;
  std::size_t arguments;
  double (*value)(double, double);
};
constexpr std::array<Function, 4> kFunctions = {{
    {"max", 2, [](double a, double b) { return std::max(a, b); }},
    {"ceil", 1, [](double a, double) { return std::ceil(a); }},
    {"sqrt", 1, [](double a, double) { return std::sqrt(a); }},
    {"log2", 1, [](double a, double) { return std::log2(a); }},
}};

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_of_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; }

std::vector<Token> tokens_of(std::string_view formula) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < formula.size();) {
    if (formula[i] == ' ') {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    TokenKind kind = TokenKind::sign;
    if (is_of_number(formula[i])) {
      kind = TokenKind::number;
      while (end < formula.size() && is_of_number(formula[end])) ++end;
    } else if (is_of_name(formula[i])) {
      while (end < formula.size() && is_of_name(formula[end])) ++end;
      const bool is_known =
          std::ranges::find(kFunctions, formula.substr(i, end - i), &Function::name) != kFunctions.end();
      kind = is_known ? TokenKind::function : TokenKind::symbol;
    }
    tokens.push_back({kind, formula.substr(i, end - i), i});
    i = end;
  }
  return tokens;
}

double symbol_value(std::string_view name, const Symbols& symbols) {
  const auto found = symbols.find(name);
  if (found == symbols.end()) throw_error("the symbol '{}' of a formula is unknown", name);
  return found->second;
}

class Parser {
 public:
  Parser(std::string_view formula, const Symbols& symbols)
      : formula_(formula), symbols_(symbols), tokens_(tokens_of(formula)) {}

  double value() {
    const double result = sum();
    if (next_ != tokens_.size()) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const { throw_error("'{}' is no formula", formula_); }

  bool is_sign(char sign) const {
    return next_ < tokens_.size() && tokens_[next_].kind == TokenKind::sign && tokens_[next_].text[0] == sign;
  }
  bool take(char sign) {
    if (!is_sign(sign)) return false;
    ++next_;
    return true;
  }
  void need(char sign) {
    if (!take(sign)) fail();
  }
  bool at_factor() const { return next_ < tokens_.size() && (tokens_[next_].kind != TokenKind::sign || is_sign('(')); }

  double sum() {
    double result = product();
    for (;;) {
      if (take('+'))
        result += product();
      else if (take('-'))
        result -= product();
      else
        return result;
    }
  }

  double product() {
    double result = power();
    for (;;) {
      if (take('/'))
        result /= power();
      else if (at_factor())
        result *= power();
      else
        return result;
    }
  }

  double power() {
    const double base = factor();
    return take('^') ? std::pow(base, factor()) : base;
  }

  double factor() {
    if (!at_factor()) fail();
    const Token token = tokens_[next_++];
    switch (token.kind) {
      case TokenKind::symbol: return symbol_value(token.text, symbols_);
      case TokenKind::function: return call(*std::ranges::find(kFunctions, token.text, &Function::name));
      case TokenKind::sign: {
        const double inner = sum();
        need(')');
        return inner;
      }
      case TokenKind::number: break;
    }
    double number = 0;
    const char* const end = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), end, number).ptr != end) fail();
    return number;
  }

  double call(const Function& function) {
    need('(');
    const double first = sum();
    double second = 0;
    if (function.arguments == 2) {
      need(',');
      second = sum();
    }
    need(')');
    return function.value(first, second);
  }

  std::string_view formula_;
  const Symbols& symbols_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

bool ends_factor(const Token& token) {
  return token.kind == TokenKind::number || token.kind == TokenKind::symbol || token.text == ")";
}
bool begins_factor(const Token& token) { return token.kind != TokenKind::sign || token.text == "("; }

}  // namespace

double value_of(std::string_view formula, const Symbols& symbols) { return Parser(formula, symbols).value(); }

std::string figure(double value) {
  constexpr double kMostWhole = 1e6;
  if (value == std::round(value) && std::abs(value) < kMostWhole) return fmt::format("{:.0f}", value);
  std::string text = fmt::format("{:.4g}", value);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  int power = 0;
  const char* const digits = text.data() + exponent + (text[exponent + 1] == '+' ? 2 : 1);
  std::from_chars(digits, text.data() + text.size(), power);
  return fmt::format("{}e{}", text.substr(0, exponent), power);
}

std::string with_figures(std::string_view formula, const Symbols& symbols) {
  const std::vector<Token> tokens = tokens_of(formula);
  std::string text;
  std::size_t end = 0;  // of the token before, in the formula
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool is_product = i > 0 && ends_factor(tokens[i - 1]) && begins_factor(token);
    text += is_product ? std::string_view(" × ") : formula.substr(end, token.begin - end);
    if (token.kind == TokenKind::symbol)
      text += figure(symbol_value(token.text, symbols));
    else
      text += token.text;
    end = token.begin + token.text.size();
  }
  return text;
}

}  // namespace ridgepoint
