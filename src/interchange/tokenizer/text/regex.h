// Regular expressions of tokenizers, by PCRE2. Their files are written for Oniguruma, whose \s and \w mean other
// characters beyond ASCII; both are written out as their characters here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ridgepoint::tokenizer {

class Regex {
 public:
  // Throws Error with the pattern's fault.
  explicit Regex(const std::string& pattern);

  // Calls on_match(begin, end) for each match in order. Throws Error where the pattern takes too long.
  void for_each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& on_match) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace ridgepoint::tokenizer
