#include "tables/plot/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numbers>
#include <optional>

#include "core/text/text.h"
#include "core/text/units.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

// The colours of web/src/elements/style.css.
constexpr std::array<std::string_view, 8> kLight = {"#1f6fb4", "#cf6a12", "#2c8a4b", "#a23f9b",
                                                    "#b8960c", "#15949a", "#bf3d3d", "#6c737b"};
constexpr std::array<std::string_view, 8> kDark = {"#5aa5e6", "#ee9547", "#5cc07d", "#d583cf",
                                                   "#dcc04a", "#4cc3c9", "#ec7c7c", "#a4acb5"};
// Pale ones for phases, in their order: forward, loss, recompute, backward, optimizer.
constexpr std::array<std::string_view, 5> kLightShades = {"#cfe2f3", "#f8d9b8", "#e2d3ee", "#cde8d5", "#f2e9b5"};
constexpr std::array<std::string_view, 5> kDarkShades = {"#24415c", "#5a3a1a", "#463057", "#22492f", "#4b431a"};
constexpr double kRadius = 4.5;
constexpr double kCharacter = 7.9;  // pixels of a character of text, on average
constexpr std::array kCorners = {0, 4, 3, 5};

std::string_view name_of(SvgCanvas::Anchor anchor) {
  return anchor == SvgCanvas::Anchor::start ? "start" : anchor == SvgCanvas::Anchor::middle ? "middle" : "end";
}

std::string colours(const std::array<std::string_view, 8>& series, const std::array<std::string_view, 5>& shades,
                    std::string_view page, std::string_view ink, std::string_view quiet, std::string_view grid) {
  std::string css = fmt::format(
      ".page{{fill:{}}}text{{fill:{}}}.quiet{{fill:{}}}.grid{{stroke:{}}}.axis{{stroke:{}}}.dashed{{stroke:{}}}", page,
      ink, quiet, grid, quiet, ink);
  for (std::size_t i = 0; i < series.size(); ++i) css += fmt::format(".s{}{{color:{}}}", i, series[i]);
  for (std::size_t i = 0; i < shades.size(); ++i) css += fmt::format(".b{}{{fill:{}}}", i, shades[i]);
  return css;
}

// The outline of the mark of a series: a circle, a square, a triangle or a pentagon, so that colour is not all that
// tells series apart.
std::string outline(std::size_t series, double x, double y, double radius) {
  const int corners = kCorners[series % kCorners.size()];
  if (corners == 0) return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"", x, y, radius);
  std::string points;
  for (int corner = 0; corner < corners; ++corner) {
    const double turn = (corner + (corners == 4 ? 0.5 : 0)) / corners;
    const double angle = 2 * std::numbers::pi * turn - std::numbers::pi / 2;
    points += fmt::format("{:.1f},{:.1f} ", x + 1.2 * radius * std::cos(angle), y + 1.2 * radius * std::sin(angle));
  }
  points.pop_back();
  return fmt::format("<polygon points=\"{}\"", points);
}

std::string path_of(const SvgCanvas::Points& points) {
  std::string path;
  for (const auto& [x, y] : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
  return path;
}

constexpr std::size_t kMostTicks = 9;
constexpr int kMostSteps = 100;  // of an axis that is divided in some six

struct Range {
  double low = 1, high = 1;
};

// Of the values that are finite and above `above`.
Range range_of(const std::vector<double>& values, double above) {
  std::optional<Range> range;
  for (const double value : values) {
    if (!std::isfinite(value) || value <= above) continue;
    if (!range) range = Range{value, value};
    range = Range{std::min(range->low, value), std::max(range->high, value)};
  }
  return range.value_or(Range());
}

bool is_binary(SvgUnit unit) { return unit == SvgUnit::bytes; }

// Powers of the base between the ends. If there are few, also 2 and 5 times each power.
std::vector<double> logarithmic_ticks(double low, double high, double base) {
  for (const std::vector<double>& factors : {std::vector<double>{1, 2, 5}, std::vector<double>{1, 3}, {1.0}}) {
    if (base == 2 && factors.size() > 1) continue;
    std::vector<double> ticks;
    for (double power = std::floor(low / std::log(base)); power <= high / std::log(base); ++power) {
      for (const double factor : factors) {
        const double value = factor * std::pow(base, power);
        if (std::log(value) >= low && std::log(value) <= high) ticks.push_back(value);
      }
    }
    if (ticks.size() <= kMostTicks) return ticks;
    if (factors.size() > 1) continue;
    const std::size_t every = (ticks.size() + kMostTicks - 1) / kMostTicks;
    std::vector<double> fewer;
    for (std::size_t i = 0; i < ticks.size(); i += every) fewer.push_back(ticks[i]);
    return fewer;
  }
  return {};
}

// 1, 2 or 5 times a power of ten (a power of two for bytes), so that the axis has some six steps.
double step_of(double length, SvgUnit unit) {
  const double rough = std::max(length / 6, 1e-12);
  if (is_binary(unit)) return std::pow(2.0, std::ceil(std::log2(rough)));
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) return factor * magnitude;
  }
  return 10 * magnitude;
}

// From `first` on. The number of steps is limited, because a step may be too small to change a large value.
std::vector<double> linear_ticks(double first, double high, double step) {
  std::vector<double> ticks;
  for (int i = 0; i <= kMostSteps; ++i) {
    if (const double value = first + i * step; value <= high && std::isfinite(value)) ticks.push_back(value);
  }
  return ticks;
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
      width, height, xml_text(title), colours(kLight, kLightShades, "#ffffff", "#1d2126", "#5a636e", "#dfe3e8"),
      colours(kDark, kDarkShades, "#14171b", "#e4e7eb", "#a2abb5", "#30363d"));
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

void SvgCanvas::line(Line line, const Points& points) {
  fmt::format_to(std::back_inserter(text_), "<path class=\"{}\"{} d=\"{}\"/>\n",
                 line == Line::grid   ? "grid"
                 : line == Line::axis ? "axis"
                                      : "dashed",
                 line == Line::dashed ? " fill=\"none\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"" : "",
                 path_of(points));
}

void SvgCanvas::curve(std::size_t series, const Points& points, bool is_dashed, std::size_t above) {
  if (points.size() < 2) return;
  constexpr double kSeenBesideEach = 3;
  fmt::format_to(std::back_inserter(text_),
                 "<path class=\"s{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\"{} d=\"{}\"/>\n",
                 series % kLight.size(), (is_dashed ? 1.5 : 2) + kSeenBesideEach * static_cast<double>(above),
                 is_dashed ? " stroke-dasharray=\"5 4\"" : "", path_of(points));
}

void SvgCanvas::area(std::size_t series, const Points& outline) {
  fmt::format_to(std::back_inserter(text_), "<path class=\"s{}\" fill=\"currentColor\" d=\"{}Z\"/>\n",
                 series % kLight.size(), path_of(outline));
}

void SvgCanvas::band(std::size_t shade, double x, double y, double width, double height, std::string_view tip) {
  fmt::format_to(std::back_inserter(text_),
                 "<rect class=\"b{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
                 "<title>{}</title></rect>\n",
                 shade % kLightShades.size(), x, y, width, height, xml_text(tip));
}

void SvgCanvas::mark(std::size_t series, SvgMarkShape shape, double x, double y, std::string_view tip,
                     std::size_t above) {
  std::string start;
  if (shape == SvgMarkShape::cross) {
    start = fmt::format("<path stroke=\"currentColor\" stroke-width=\"2\" d=\"M{:.1f} {:.1f}l8 8m0 -8l-8 8\"", x - 4,
                        y - 4);
  } else {
    start = outline(series, x, y, kRadius + 2 * static_cast<double>(above)) +
            (shape == SvgMarkShape::filled ? " fill=\"currentColor\""
                                           : " fill=\"none\" pointer-events=\"all\" stroke=\"currentColor\" "
                                             "stroke-width=\"1.8\"");
  }
  fmt::format_to(std::back_inserter(text_), "{} class=\"s{}\"><title>{}</title></{}>\n", start, series % kLight.size(),
                 xml_text(tip), start.substr(1, start.find(' ') - 1));
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

double SvgCanvas::width_of(std::string_view words) { return kCharacter * static_cast<double>(display_width(words)); }

std::string svg_number(double value, SvgUnit unit) {
  if (!std::isfinite(value)) return "-";
  switch (unit) {
    case SvgUnit::bytes: return format_byte_count(value);
    case SvgUnit::count: return format_count(value);
    case SvgUnit::milliseconds: return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
    case SvgUnit::share: return fmt::format("{:.3g} %", 100 * value);
    case SvgUnit::number: break;
  }
  return value != 0 && std::abs(value) < 1 ? fmt::format("{:.2g}", value) : fmt::format("{:.6g}", value);
}

SvgAxis SvgAxis::logarithmic(const std::vector<double>& values, SvgUnit unit) {
  const auto [low, high] = range_of(values, 0);
  const double room = std::max((std::log(high) - std::log(low)) * 0.06, 0.15);
  SvgAxis axis(std::log(low) - room, std::log(high) + room, true);
  axis.ticks_ = logarithmic_ticks(axis.low_, axis.high_, is_binary(unit) ? 2 : 10);
  if (axis.ticks_.size() < 3) {  // a short stretch
    const double begin = std::exp(axis.low_), end = std::exp(axis.high_), step = step_of(end - begin, unit);
    axis.ticks_ = linear_ticks(std::ceil(begin / step) * step, end, step);
  }
  return axis;
}

SvgAxis SvgAxis::linear(const std::vector<double>& values, SvgUnit unit, bool from_zero) {
  const auto [least, most] = range_of(values, -std::numeric_limits<double>::infinity());
  const double room = std::max((most - least) * 0.08, std::abs(most) * 0.01);
  const double step = step_of(most - (from_zero ? 0 : least) + 2 * room, unit);
  const double low = from_zero ? 0 : std::max(0.0, std::floor((least - room) / step) * step);
  SvgAxis axis(low, std::max(most + room, low + step), false);
  axis.ticks_ = linear_ticks(low, axis.high_, step);
  return axis;
}

double SvgAxis::share(double value) const {
  const double share = ((is_logarithmic_ ? std::log(value) : value) - low_) / (high_ - low_);
  return share > 0 ? std::min(share, 1.0) : 0;  // 0 for NaN too
}

void SvgAxis::use_ticks(std::vector<double> values) {
  std::erase_if(values, [&](double value) { return !can_show(value); });
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  if (values.size() <= kMostTicks) ticks_ = std::move(values);
}

}  // namespace ridgepoint::tables
