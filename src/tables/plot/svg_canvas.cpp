#include "tables/plot/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

#include "core/text/text.h"

namespace ridgepoint::views {
namespace {

// The colours of web/src/style.css.
constexpr std::array<std::string_view, 8> kLight = {"#1f6fb4", "#cf6a12", "#2c8a4b", "#a23f9b",
                                                    "#b8960c", "#15949a", "#bf3d3d", "#6c737b"};
constexpr std::array<std::string_view, 8> kDark = {"#5aa5e6", "#ee9547", "#5cc07d", "#d583cf",
                                                   "#dcc04a", "#4cc3c9", "#ec7c7c", "#a4acb5"};
constexpr double kRadius = 4.5;
constexpr double kCharacter = 7.9;  // pixels of a character of text, on average
constexpr std::array kCorners = {0, 4, 3, 5};

std::string_view name_of(SvgCanvas::Anchor anchor) {
  return anchor == SvgCanvas::Anchor::start ? "start" : anchor == SvgCanvas::Anchor::middle ? "middle" : "end";
}

std::string colours(const std::array<std::string_view, 8>& series, std::string_view page, std::string_view ink,
                    std::string_view quiet, std::string_view grid) {
  std::string css = fmt::format(".page{{fill:{}}}text{{fill:{}}}.quiet{{fill:{}}}.grid{{stroke:{}}}.axis{{stroke:{}}}",
                                page, ink, quiet, grid, quiet);
  for (std::size_t i = 0; i < series.size(); ++i) css += fmt::format(".s{}{{color:{}}}", i, series[i]);
  return css;
}

// The outline of the mark of a series: a circle, a square, a triangle or a pentagon, so that colour is not all that
// tells series apart.
std::string outline(std::size_t series, double x, double y) {
  const int corners = kCorners[series % kCorners.size()];
  if (corners == 0) return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"", x, y, kRadius);
  std::string points;
  for (int corner = 0; corner < corners; ++corner) {
    const double turn = (corner + (corners == 4 ? 0.5 : 0)) / corners;
    const double angle = 2 * std::numbers::pi * turn - std::numbers::pi / 2;
    points += fmt::format("{:.1f},{:.1f} ", x + 1.2 * kRadius * std::cos(angle), y + 1.2 * kRadius * std::sin(angle));
  }
  points.pop_back();
  return fmt::format("<polygon points=\"{}\"", points);
}

}  // namespace

SvgCanvas::SvgCanvas(double width, double height, std::string_view title, std::string_view subtitle) {
  width = std::max({width, 1.3 * width_of(title) + 32, width_of(subtitle) + 32});
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{2}</title>\n"
      "<style>{3}@media(prefers-color-scheme:dark){{{4}}}</style>\n"
      "<rect class=\"page\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n"
      "<text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"600\">{2}</text>\n",
      width, height, xml_text(title), colours(kLight, "#ffffff", "#1d2126", "#5a636e", "#dfe3e8"),
      colours(kDark, "#14171b", "#e4e7eb", "#a2abb5", "#30363d"));
  if (!subtitle.empty()) text(16, 46, subtitle, Anchor::start, Ink::quiet);
}

void SvgCanvas::text(double x, double y, std::string_view words, Anchor anchor, Ink ink) {
  fmt::format_to(std::back_inserter(text_), "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                 name_of(anchor),
                 ink == Ink::quiet     ? " class=\"quiet\""
                 : ink == Ink::heading ? " font-weight=\"600\""
                                       : "",
                 xml_text(words));
}

void SvgCanvas::grid_line(double x1, double y1, double x2, double y2) {
  fmt::format_to(std::back_inserter(text_), "<path class=\"grid\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x1, y1, x2,
                 y2);
}

void SvgCanvas::axis_line(double x1, double y1, double x2, double y2) {
  fmt::format_to(std::back_inserter(text_), "<path class=\"axis\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x1, y1, x2,
                 y2);
}

void SvgCanvas::curve(std::size_t series, const std::vector<std::pair<double, double>>& points, bool is_dashed) {
  if (points.size() < 2) return;
  fmt::format_to(std::back_inserter(text_),
                 "<path class=\"s{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\"{} d=\"",
                 series % kLight.size(), is_dashed ? 1.5 : 2, is_dashed ? " stroke-dasharray=\"5 4\"" : "");
  const char* command = "M";
  for (const auto& [x, y] : points) {
    fmt::format_to(std::back_inserter(text_), "{}{:.1f} {:.1f}", command, x, y);
    command = "L";
  }
  text_ += "\"/>\n";
}

void SvgCanvas::mark(std::size_t series, SvgMarkShape shape, double x, double y, std::string_view tip) {
  std::string start;
  if (shape == SvgMarkShape::cross) {
    start = fmt::format("<path stroke=\"currentColor\" stroke-width=\"2\" d=\"M{:.1f} {:.1f}l8 8m0 -8l-8 8\"", x - 4,
                        y - 4);
  } else {
    start = outline(series, x, y) + (shape == SvgMarkShape::filled
                                         ? " fill=\"currentColor\""
                                         : " fill=\"none\" pointer-events=\"all\" stroke=\"currentColor\" "
                                           "stroke-width=\"1.8\"");
  }
  const std::string_view element = std::string_view(start).substr(1, start.find(' ') - 1);
  const std::string name(element);
  fmt::format_to(std::back_inserter(text_), "{} class=\"s{}\"><title>{}</title></{}>\n", start, series % kLight.size(),
                 xml_text(tip), name);
}

void SvgCanvas::bar(std::size_t series, double x, double y, double width, double height, std::string_view tip) {
  fmt::format_to(std::back_inserter(text_),
                 "<rect class=\"s{}\" fill=\"currentColor\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                 "height=\"{:.1f}\"><title>{}</title></rect>\n",
                 series % kLight.size(), x, y, width, height, xml_text(tip));
}

void SvgCanvas::range(std::size_t series, double x1, double x2, double y) {
  fmt::format_to(std::back_inserter(text_),
                 "<path class=\"s{}\" stroke=\"currentColor\" stroke-width=\"1.5\" opacity=\"0.6\" d=\"M{:.1f} "
                 "{:.1f}H{:.1f}\"/>\n",
                 series % kLight.size(), x1, y, x2);
}

std::string SvgCanvas::finish() { return std::move(text_) + "</svg>\n"; }

double SvgCanvas::width_of(std::string_view words) {
  const auto characters =
      std::ranges::count_if(words, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return kCharacter * static_cast<double>(characters);
}

}  // namespace ridgepoint::views
