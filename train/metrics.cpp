#include "ringlet/train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::train {
namespace {

using Json = nlohmann::ordered_json;

/// The complete lines of steps up to `step`.
std::string lines_until(const std::filesystem::path& path, std::int64_t step) {
  std::string kept;
  if (step == 0 || !path_exists(path)) return kept;
  const std::string text = read_file(path);
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line + '\n';
  }
  return kept;
}

void append(std::ofstream& out, const std::filesystem::path& path, const std::string& line) {
  errno = 0;
  out << line << '\n' << std::flush;
  if (!out) fail_input(path.string(), ": cannot write: ", std::strerror(errno ? errno : EIO));
}

Json number(double value) {
  const auto integer = static_cast<std::int64_t>(std::abs(value) < 1e15 ? value : 0);
  if (static_cast<double>(integer) == value) return integer;
  return value;
}

}  // namespace

std::optional<double> find_metric(const Metrics& metrics, std::string_view name) {
  for (const auto& [known, value] : metrics)
    if (known == name) return value;
  return std::nullopt;
}

void append_csv(const std::filesystem::path& path, std::string_view header,
                const std::vector<double>& values) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const bool fresh = !std::filesystem::exists(path, error);
  std::ofstream out(path, std::ios::app);
  if (fresh) append(out, path, std::string(header));
  std::string line;
  for (const double value : values) line += fmt::format("{}{}", line.empty() ? "" : ",", value);
  append(out, path, line);
}

void trim_csv(const std::filesystem::path& path, std::int64_t step) {
  const std::string text = read_file(path);
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string kept, line, field;
  std::ptrdiff_t steps = -1;
  for (bool header = true; std::getline(lines, line); header = false) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    while (std::getline(fields, field, ',')) row.push_back(field);
    if (header) {
      steps = std::find(row.begin(), row.end(), "steps") - row.begin();
      if (steps == std::ssize(row)) return;
    } else if (steps >= std::ssize(row) ||
               std::atoll(row[static_cast<std::size_t>(steps)].c_str()) > step) {
      continue;
    }
    kept += line + '\n';
  }
  if (kept != text) write_file(path, kept);
}

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t step)
    : path_(std::move(path)) {
  write_file(path_, lines_until(path_, step));
  out_.open(path_, std::ios::app);
}

void MetricsWriter::write(std::int64_t step, double epoch, const Metrics& metrics) {
  Json line{{"step", step}, {"epoch", number(epoch)}};
  for (const auto& [name, value] : metrics) line[name] = number(value);
  append(out_, path_, line.dump());
}

}  // namespace ringlet::train
