#include "ringlet/train/svg.h"

#include <array>
#include <charconv>

#include "ringlet/core/base/error.h"

namespace ringlet::train::svg {
namespace {

constexpr std::string_view kLightStyle = R"(
svg { font: 12px system-ui, "DejaVu Sans", sans-serif }
.page { fill: #ffffff } text { fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d8dee4 } .axis { stroke: #57606a }
.level { stroke: #57606a; stroke-dasharray: 5 4 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.faint { stroke-width: 1; opacity: .35 } .dashed { stroke-dasharray: 7 3 }
)";
constexpr std::string_view kDarkStyle = R"(
.page { fill: #0d1117 } text { fill: #d1d7de }
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
    text += str(".bar.c", i, ", .dot.c", i, " { fill: ", palette[i], " }\n");
  }
  return text;
}

std::string pixels(double value) {
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 1);
  return {text.data(), end.ptr};
}

std::string attribute(std::string_view name, double value) {
  return str(' ', name, "=\"", pixels(value), '"');
}

std::string attribute(std::string_view name, std::string_view value) {
  return str(' ', name, "=\"", value, '"');
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

std::string number(double value) {
  constexpr int kDigits = 9;
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value == 0 ? 0 : value,
                                 std::chars_format::general, kDigits);
  return {text.data(), end.ptr};
}

double text_width(std::string_view text) {
  constexpr double kCharacter = 7;
  return kCharacter * static_cast<double>(text.size());
}

std::string colour_class(std::size_t series) {
  return str('c', series % kColours, series < kColours ? "" : " dashed");
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  body_ += str("<line", attribute("class", classes), attribute("x1", x1), attribute("y1", y1),
               attribute("x2", x2), attribute("y2", y2), "/>\n");
}

void Canvas::rectangle(double x, double y, double width, double height, std::string_view classes) {
  body_ += str("<rect", attribute("class", classes), attribute("x", x), attribute("y", y),
               attribute("width", width), attribute("height", height), "/>\n");
}

void Canvas::dot(double x, double y, std::string_view classes) {
  body_ += str("<circle", attribute("class", classes), attribute("cx", x), attribute("cy", y),
               attribute("r", 3), "/>\n");
}

void Canvas::polyline(const std::vector<std::pair<double, double>>& points,
                      std::string_view classes) {
  std::string list;
  for (const auto& [x, y] : points) list += str(list.empty() ? "" : " ", pixels(x), ',', pixels(y));
  body_ += str("<polyline", attribute("class", classes), attribute("points", list), "/>\n");
}

void Canvas::text(double x, double y, Anchor anchor, std::string_view classes,
                  std::string_view text) {
  body_ += str("<text", attribute("class", classes), attribute("x", x), attribute("y", y),
               attribute("text-anchor", name(anchor)), '>', escape(text), "</text>\n");
}

void Canvas::text_upwards(double x, double y, std::string_view classes, std::string_view text) {
  body_ += str("<text", attribute("class", classes), attribute("text-anchor", "middle"),
               " transform=\"translate(", pixels(x), ' ', pixels(y), ") rotate(-90)\">",
               escape(text), "</text>\n");
}

std::string Canvas::document(double height, std::string_view title) const {
  const std::string box = str("0 0 ", pixels(kWidth), ' ', pixels(height));
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\"", attribute("width", kWidth),
             attribute("height", height), attribute("viewBox", box), " role=\"img\">\n<title>",
             escape(title), "</title>\n<style>", kLightStyle, colours(kLight),
             "@media (prefers-color-scheme: dark) {", kDarkStyle, colours(kDark),
             "}\n</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", body_,
             "</svg>\n");
}

}  // namespace ringlet::train::svg
