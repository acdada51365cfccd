#include "ringlet/core/graph.h"

#include <utility>
#include <vector>

#include "ringlet/core/error.h"

namespace ringlet {
namespace {

thread_local bool capturing_here = false;
thread_local std::vector<std::function<void()>> after_capture_here;
thread_local bool shapes_recur_here = false;

class CapturingScope {
 public:
  CapturingScope() { capturing_here = true; }
  ~CapturingScope() { capturing_here = false; }
  CapturingScope(const CapturingScope&) = delete;
  CapturingScope& operator=(const CapturingScope&) = delete;
};

class AfterCapture {
 public:
  AfterCapture() = default;
  ~AfterCapture() {
    for (const auto& call : std::exchange(after_capture_here, {})) call();
  }
  AfterCapture(const AfterCapture&) = delete;
  AfterCapture& operator=(const AfterCapture&) = delete;
};

}  // namespace

std::string why_no_graphs(Device device) { return backend(device.type).why_no_graphs(device); }

std::unique_ptr<DeviceGraph> capture(Device device, const std::function<void()>& work) {
  check_not_capturing("a capture inside another");
  Backend& captured = backend(device.type);
  if (const std::string why = captured.why_no_graphs(device); !why.empty())
    fail("[graph] nothing of ", device, " can be captured: ", why);
  const AfterCapture then;
  captured.begin_capture(device);
  try {
    const CapturingScope scope;
    work();
  } catch (...) {
    captured.abandon_capture(device);
    throw;
  }
  return captured.end_capture(device);
}

ShapesRecur::ShapesRecur() : before_(std::exchange(shapes_recur_here, true)) {}
ShapesRecur::~ShapesRecur() { shapes_recur_here = before_; }
bool shapes_recur() { return shapes_recur_here; }

bool is_capturing() { return capturing_here; }
void run_after_capture(std::function<void()> call) {
  after_capture_here.push_back(std::move(call));
}
void check_not_capturing(const char* what) {
  if (capturing_here) [[unlikely]]
    fail("[graph] ", what, " cannot be captured");
}
void check_not_capturing(const char* what, Device device) {
  check_not_capturing(what);
  if (device.type != DeviceType::cpu && backend(device.type).is_captured(device)) [[unlikely]]
    fail("[graph] ", what, " while another thread captures what ", device, " is given");
}

}  // namespace ringlet
