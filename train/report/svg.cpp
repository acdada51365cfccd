#include "ringlet/train/report/svg.h"

#include <fmt/format.h>

#include <array>

#include "ringlet/core/base/error.h"

namespace ringlet::train::svg {
namespace {

constexpr std::string_view kLightStyle = R"(
svg { font: 12px system-ui, "DejaVu Sans", sans-serif }
.page { fill: #ffffff } text { fill: #24292f } text.on { fill: #ffffff }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d8dee4 } .axis { stroke: #57606a }
.level { stroke: #57606a; stroke-dasharray: 5 4 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.faint { stroke-width: 1; opacity: .5 } .dashed { stroke-dasharray: 7 3 }
)";
constexpr std::string_view kDarkStyle = R"(
.page { fill: #0d1117 } text { fill: #d1d7de } text.on { fill: #0d1117 }
.grid { stroke: #30363d } .axis { stroke: #8b949e } .level { stroke: #8b949e }
)";
// Readers with colour-blindness can distinguish them, too (after Okabe and Ito 2008).
using Palette = std::array<std::string_view, kColours>;
constexpr Palette kLight{"#0072b2", "#c84e00", "#00875f", "#b3558a", "#a87400", "#6e7781"};
constexpr Palette kDark{"#56b4e9", "#ff9e57", "#3fcf9f", "#e6a0c8", "#e9c46a", "#9aa4af"};

std::string colours(const Palette& palette) {
  std::string text;
  for (std::size_t i = 0; i < kColours; ++i) {
    text += str(".line.c", i, " { stroke: ", palette[i], " } ");
    text += str(".dot.c", i, " { fill: ", palette[i], " }\n");
  }
  return text;
}

std::string_view name(Anchor anchor) {
  constexpr std::array<std::string_view, 3> kNames{"start", "middle", "end"};
  return kNames[static_cast<std::size_t>(anchor)];
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string number(double value) { return fmt::format("{:.9g}", value == 0 ? 0 : value); }

double text_width(std::string_view text) {
  constexpr double kCharacter = 7;
  return kCharacter * static_cast<double>(text.size());
}

std::string colour_class(std::size_t series) {
  return str('c', series % kColours, series < kColours ? "" : " dashed");
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  body_ +=
      fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                  classes, x1, y1, x2, y2);
}

void Canvas::bar(double x, double y, double width, double height, std::string_view classes,
                 std::string_view about) {
  body_ += fmt::format(
      "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"><title>{}"
      "</title></rect>\n",
      classes, x, y, width, height, escape(about));
}

void Canvas::dot(double x, double y, std::string_view classes) {
  body_ +=
      fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.0\"/>\n", classes, x, y);
}

void Canvas::polyline(const std::vector<std::pair<double, double>>& points,
                      std::string_view classes) {
  std::string list;
  for (const auto& [x, y] : points)
    list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  body_ += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", classes, list);
}

void Canvas::text(double x, double y, Anchor anchor, std::string_view classes,
                  std::string_view text) {
  body_ +=
      fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                  classes, x, y, name(anchor), escape(text));
}

void Canvas::text_upwards(double x, double y, std::string_view classes, std::string_view text) {
  body_ += fmt::format(
      "<text class=\"{}\" text-anchor=\"middle\" transform=\"translate({:.1f} {:.1f}) "
      "rotate(-90)\">{}</text>\n",
      classes, x, y, escape(text));
}

std::string Canvas::document(double height, std::string_view title) const {
  const std::string size = fmt::format(
      "width=\"{0:.1f}\" height=\"{1:.1f}\" viewBox=\"0 0 {0:.1f} {1:.1f}\"", width_, height);
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" ", size, " role=\"img\">\n<title>",
             escape(title), "</title>\n<style>", kLightStyle, colours(kLight),
             "@media (prefers-color-scheme: dark) {", kDarkStyle, colours(kDark),
             "}\n</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", body_,
             "</svg>\n");
}

std::pair<double, double> Legend::place(double mark, std::string_view text) {
  constexpr double kGap = 18, kRow = 18;
  const double width = mark + text_width(text);
  if (x_ > left_ && x_ + width > right_) {
    x_ = left_;
    y_ += kRow;
  }
  const std::pair<double, double> at{x_, y_};
  x_ += width + kGap;
  return at;
}

}  // namespace ringlet::train::svg
