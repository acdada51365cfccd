// Trace files, as `--timeline` writes them.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

/// A trace file: complete events, which are nested or disjoint within a thread, and names.
struct Trace {
  explicit Trace(const std::string& file) {
    const auto events = ringlet::Json::parse(ringlet::read_file(file))["traceEvents"];
    std::set<std::pair<int, int>> named;
    for (const auto& event : events) {
      if (event["ph"] == "M") {
        if (event["name"] == "process_name") processes.push_back(event["args"]["name"].text());
        if (event["name"] == "thread_name")
          named.emplace(event["pid"].get<int>(), event["tid"].get<int>());
        continue;
      }
      CHECK_EQ(event["ph"], "X");
      CHECK(event["dur"].get<double>() >= 0);
      CHECK(event["ts"].is_number());
      CHECK(named.contains({event["pid"].get<int>(), event["tid"].get<int>()}));
      complete.push_back(event);
    }
    for (const auto& pair : named) check_nesting(pair);
  }

  /// ms of these events on the rank with the most; an empty name: of all names.
  double most_ms(const std::string& strategy, const std::string& kind,
                 const std::string& name) const {
    std::map<int, double> ms;
    for (const auto& event : complete)
      if (event["cat"] == kind && (name.empty() || event["name"] == name) &&
          processes.at(event["pid"].get<std::size_t>()).starts_with(strategy + ", "))
        ms[event["pid"].get<int>()] += event["dur"].get<double>() / 1e3;
    double most = 0;
    for (const auto& rank : ms) most = std::max(most, rank.second);
    return most;
  }

  /// The events of this kind and name in a process, such as "ddp, rank 0".
  auto number_of(const std::string& process, const std::string& kind,
                 const std::string& name) const {
    return std::ranges::count_if(complete, [&](const ringlet::Json& event) {
      return event["cat"] == kind && event["name"] == name &&
             processes.at(event["pid"].get<std::size_t>()) == process;
    });
  }

  std::vector<std::string> processes;

 private:
  void check_nesting(std::pair<int, int> thread) const {
    constexpr double kNanosecond = 1e-3;
    std::vector<std::pair<double, double>> spans;
    for (const auto& event : complete)
      if (event["pid"] == thread.first && event["tid"] == thread.second)
        spans.emplace_back(event["ts"].number(),
                           event["ts"].get<double>() + event["dur"].get<double>());
    std::ranges::sort(spans, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : spans) {
      while (!open.empty() && open.back() <= begin + kNanosecond) open.pop_back();
      if (!open.empty()) CHECK(end <= open.back() + kNanosecond);
      open.push_back(end);
    }
  }

  std::vector<ringlet::Json> complete;
};
