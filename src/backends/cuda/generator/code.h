// The text of a generated source, built line by line with indentation.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ridgepoint::cuda {

class Code {
 public:
  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_.append(2 * depth_, ' ');
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...);  // format_to would compile all of {fmt} here
    text_ += '\n';
  }
  // A line that opens a block; adds " {".
  template <typename... Arguments>
  void open(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line("{} {{", fmt::format(format, std::forward<Arguments>(arguments)...));
    ++depth_;
  }
  // A loop that the compiler unrolls completely.
  void open_unrolled(std::string_view variable, int count) {
    line("#pragma unroll");
    open("for (int {0} = 0; {0} < {1}; ++{0})", variable, count);
  }
  void close() {
    --depth_;
    line("}}");
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t depth_ = 0;
};

}  // namespace ridgepoint::cuda
