// An SVG picture that any browser shows, on its own background. Colours follow the reader's preference for light or
// dark, and all text is escaped. Coordinates are pixels from the top left.
// An axis says where a value stands, and which values have a line.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridgepoint::tables {

// filled: measured here. hollow: published by others. cross: ran out of memory.
enum class SvgMarkShape : std::uint8_t { filled, hollow, cross };

class SvgCanvas {
 public:
  enum class Anchor : std::uint8_t { start, middle, end };
  enum class Ink : std::uint8_t { text, quiet, heading };
  enum class Line : std::uint8_t { grid, axis, dashed };
  using Points = std::vector<std::pair<double, double>>;

  // The title is the picture's name for screen readers too. The picture is wider than `width` if its titles are.
  SvgCanvas(double width, double height, std::string_view title, std::string_view subtitle);

  void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start, Ink ink = Ink::text);
  void line(Line line, const Points& points);
  void line(Line line, double x1, double y1, double x2, double y2) { this->line(line, {{x1, y1}, {x2, y2}}); }
  // A series is a number from 0: its colour, and the shape of its marks. `tip` is shown by the pointer.
  // `above`: how many others lie on it. It is so much wider that it is seen around them.
  void curve(std::size_t series, const Points& points, bool is_dashed, std::size_t above = 0);
  void mark(std::size_t series, SvgMarkShape shape, double x, double y, std::string_view tip, std::size_t above = 0);
  void area(std::size_t series, const Points& outline);
  // A pale bar that text may stand on; a shade is a number from 0.
  void band(std::size_t shade, double x, double y, double width, double height, std::string_view tip);
  void bar(std::size_t series, double x, double y, double width, double height, std::string_view tip);
  // A range of values beside a mark.
  void range(std::size_t series, double x1, double x2, double y);

  std::string finish();  // the last call

  static double width_of(std::string_view words);  // about; of a text of the usual size

 private:
  std::string text_;
};

enum class SvgUnit : std::uint8_t { number, count, milliseconds, bytes, share };

// "12.3", "128.6 M", "1.5 GiB", "12 %"; "-" for what is not finite.
std::string svg_number(double value, SvgUnit unit);

// An axis exists for any values. It leaves out values that it cannot show: NaN, infinity, 0 on a logarithmic axis.
class SvgAxis {
 public:
  // Of values above 0, with a little room at both ends.
  static SvgAxis logarithmic(const std::vector<double>& values, SvgUnit unit);
  // From a round number below the values; from 0 where `from_zero`.
  static SvgAxis linear(const std::vector<double>& values, SvgUnit unit, bool from_zero);

  double share(double value) const;  // 0 at the beginning, 1 at the end; one of these for values beyond them
  const std::vector<double>& ticks() const { return ticks_; }
  // The values themselves, where they are few enough to be ticks of a logarithmic axis.
  void use_ticks(std::vector<double> values);

 private:
  bool can_show(double value) const { return std::isfinite(value) && (!is_logarithmic_ || value > 0); }

  SvgAxis(double low, double high, bool is_logarithmic) : low_(low), high_(high), is_logarithmic_(is_logarithmic) {}

  double low_, high_;  // logarithms where the axis is logarithmic
  bool is_logarithmic_;
  std::vector<double> ticks_;
};

}  // namespace ridgepoint::tables
