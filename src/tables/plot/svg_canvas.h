// An SVG picture that any browser shows, on its own background. Colours follow the reader's preference for light or
// dark, and all text is escaped. Coordinates are pixels from the top left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridgepoint::views {

// filled: measured here. hollow: published by others. cross: ran out of memory.
enum class SvgMarkShape : std::uint8_t { filled, hollow, cross };

class SvgCanvas {
 public:
  enum class Anchor : std::uint8_t { start, middle, end };
  enum class Ink : std::uint8_t { text, quiet, heading };

  // The title is the picture's name for screen readers too. The picture is wider than `width` if its titles are.
  SvgCanvas(double width, double height, std::string_view title, std::string_view subtitle);

  void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start, Ink ink = Ink::text);
  void grid_line(double x1, double y1, double x2, double y2);
  void axis_line(double x1, double y1, double x2, double y2);
  // A series is a number from 0: its colour, and the shape of its marks. `tip` is shown by the pointer.
  void curve(std::size_t series, const std::vector<std::pair<double, double>>& points, bool is_dashed);
  void mark(std::size_t series, SvgMarkShape shape, double x, double y, std::string_view tip);
  void bar(std::size_t series, double x, double y, double width, double height, std::string_view tip);
  // A range of values beside a mark.
  void range(std::size_t series, double x1, double x2, double y);

  std::string finish();  // the last call

  static double width_of(std::string_view words);  // about; of a text of the usual size

 private:
  std::string text_;
};

}  // namespace ridgepoint::views
