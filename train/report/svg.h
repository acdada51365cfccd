// Minimal SVG for charts: text is escaped, coordinates have one decimal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringlet::train::svg {

/// The width of charts, so that text can be read where a page is 420 pixels wide.
inline constexpr double kNarrow = 480;

/// "&lt;" for "<"; characters that XML forbids become spaces.
std::string escape(std::string_view text);
/// Up to nine significant digits, no trailing zeros: "0.05", "2e-05", "1200".
std::string number(double value);
/// The approximate width of `text` in labels.
double text_width(std::string_view text);

/// Classes of a colour. There are kColours colours; then they repeat, dashed.
inline constexpr std::size_t kColours = 6;
std::string colour_class(std::size_t series);

/// The class of text on a filled shape.
inline constexpr const char* kOnShape = "on";

enum class Anchor { start, middle, end };

/// Collects elements; the drawing is in pixels from the top left.
class Canvas {
 public:
  explicit Canvas(double width) : width_(width) {}
  void line(double x1, double y1, double x2, double y2, std::string_view classes);
  /// A filled rectangle from its top left; `about` is shown under a pointer.
  void bar(double x, double y, double width, double height, std::string_view classes,
           std::string_view about);
  void dot(double x, double y, std::string_view classes);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view classes);
  void text(double x, double y, Anchor anchor, std::string_view classes, std::string_view text);
  /// Reads upwards, centred on (x, y).
  void text_upwards(double x, double y, std::string_view classes, std::string_view text);
  /// The whole document.
  std::string document(double height, std::string_view title) const;

 private:
  double width_;
  std::string body_;
};

/// Places the entries of a legend, each a mark before its text, in rows from `left` to `right`.
class Legend {
 public:
  Legend(double left, double right, double y) : left_(left), right_(right), x_(left), y_(y) {}
  /// The bottom left of the next entry, `mark` pixels wider than its text.
  std::pair<double, double> place(double mark, std::string_view text);
  /// The y of the last row.
  double bottom() const { return y_; }

 private:
  double left_, right_, x_, y_;
};

}  // namespace ringlet::train::svg
