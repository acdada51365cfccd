#include "ringlet/train/report/metrics.h"
#include "ringlet/core/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/data/lines.h"
#include "ringlet/train/report/event_file.h"

namespace ringlet::train {
namespace {

/// The complete lines of `text` for which keep(line) holds.
template <class Keep>
std::string complete_lines(const std::string& text, Keep keep) {
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string kept, line;
  while (std::getline(lines, line))
    if (keep(line)) kept += line + '\n';
  return kept;
}

void append(std::ofstream& out, const std::filesystem::path& path, const std::string& line,
            std::string_view line_end = "\n") {
  errno = 0;
  out << line << line_end << std::flush;
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

Metrics sum_over_ranks(const Metrics& mine, const comm::Group& group) {
  std::vector<double> values;
  for (const auto& [name, value] : mine) values.push_back(value);
  Metrics sums = mine;
  for (auto& [name, sum] : sums) sum = 0;
  for (const std::vector<double>& each : comm::all_gather_values(group, values)) {
    RINGLET_CHECK_EQ(each.size(), sums.size(), "[metrics] a rank's figures");
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].second += each[i];
  }
  return sums;
}

void append_csv(const std::filesystem::path& path, std::string_view header,
                const std::vector<double>& values, std::string_view line_end) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const bool fresh = !std::filesystem::exists(path, error);
  std::ofstream out(path, std::ios::app);
  if (fresh) append(out, path, std::string(header), line_end);
  std::string line;
  for (const double value : values) line += fmt::format("{}{}", line.empty() ? "" : ",", value);
  append(out, path, line, line_end);
}

void trim_csv(const std::filesystem::path& path, std::int64_t step) {
  const std::string text = read_file(path);
  std::ptrdiff_t steps = -1;  // the place of the column, once the header is read
  bool found = true;
  const std::string kept = complete_lines(text, [&](const std::string& line) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    if (steps >= 0)
      return steps < std::ssize(row) &&
             std::atoll(row[static_cast<std::size_t>(steps)].c_str()) <= step;
    steps = std::find(row.begin(), row.end(), "steps") - row.begin();
    found = steps < std::ssize(row);
    return true;
  });
  if (found && kept != text) write_file(path, kept);
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& path) {
  std::vector<MetricsLine> all;
  LineReader lines(path);
  while (const auto text = lines.next()) {
    const Json json = Json::try_parse(*text).value_or(Json());
    const auto is = [&](const char* key, bool (Json::*of_type)() const) {
      const Json* value = json.find(key);
      return value && (value->*of_type)();
    };
    if (!is("step", &Json::is_number_integer) || !is("epoch", &Json::is_number))
      lines.fail_here("expected an object with a step and an epoch");
    MetricsLine& line =
        all.emplace_back(MetricsLine{json["step"].integer(), json["epoch"].number(), {}});
    for (const auto& [name, value] : json.items()) {
      if (name == "step" || name == "epoch") continue;
      if (!value.is_number() && !value.is_null())
        lines.fail_here("expected a number in ", quote(name), ", found ", shown(value.dump()));
      line.values.emplace_back(name,
                               value.is_null() ? std::nullopt : std::optional(value.number()));
    }
  }
  return all;
}

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t step, bool tensorboard,
                             bool evaluated)
    : path_(std::move(path)) {
  const auto is_kept = [&](const std::string& line) {
    const Json json = Json::try_parse(line).value_or(Json());
    const Json* of = json.find("step");
    if (!of || !of->is_number_integer()) return false;
    const bool of_evaluation = !json.find("lr");
    return of->integer() < step || (of->integer() == step && (evaluated || !of_evaluation));
  };
  const bool continues = step > 0 && path_exists(path_);
  write_file(path_, continues ? complete_lines(read_file(path_), is_kept) : "");
  out_.open(path_, std::ios::app);
  if (tensorboard) events_ = std::make_shared<EventWriter>(path_.parent_path(), step);
}

void MetricsWriter::write(std::int64_t step, double epoch, const Metrics& metrics) {
  Json line{{"step", step}, {"epoch", number(epoch)}};
  for (const auto& [name, value] : metrics) line[name] = number(value);
  append(out_, path_, line.dump());
  if (events_) events_->write(step, metrics);
}

}  // namespace ringlet::train
