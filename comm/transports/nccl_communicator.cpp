#include "ringlet/comm/transports/nccl_communicator.h"

#include <cstring>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Number of polls of a call before the waiting thread sleeps between them. Most calls take
// microseconds; those that make connections take seconds.
constexpr int kAskedAtOnce = 1000;
constexpr auto kAskedEvery = std::chrono::microseconds(200);

bool is_taken(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

ncclUniqueId agree_on_id(const Membership& membership) {
  ncclUniqueId id;
  if (membership.rank == 0) {
    const ncclResult_t made = nccl().ncclGetUniqueId(&id);
    RINGLET_CHECK(made == ncclSuccess, "[nccl] no id: ", nccl().ncclGetErrorString(made), " (",
                  __FILE__, ':', __LINE__, ')');
    membership.store->set(membership.key("nccl id"), {id.internal, sizeof(id.internal)});
  }
  const std::string bytes =
      membership.get("nccl id", str("NCCL's id from rank ", membership.name_of(0)));
  RINGLET_CHECK_EQ(bytes.size(), sizeof(id.internal), "[nccl] bytes of the id in the store");
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const Membership& membership, Device device)
    : membership_(membership),
      device_(device),
      handle_(device, [this](const std::string& what) { report(what); }) {
  const NcclFunctions& functions = nccl();
  const ncclUniqueId id = agree_on_id(membership);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  backend(device.type).stream(device);  // NCCL takes the thread's current device
  ncclComm_t handle = nullptr;
  const ncclResult_t made =
      functions.ncclCommInitRankConfig(&handle, membership.size, id, membership.rank, &config);
  handle_.own(handle);
  const std::string where = str("[group] ", membership.id, ": a communicator on ", device);
  if (!is_taken(made)) end(where, made);
  wait_until_taken(where);
}

NcclCommunicator::~NcclCommunicator() {
  try {
    if (!handle_ || membership_.store->raised() ||
        !is_taken(nccl().ncclCommFinalize(handle_.get())))
      return;
    const ncclResult_t finalized = outcome(membership_.timeout);
    if (finalized == ncclSuccess) handle_.destroy();
    if (finalized == ncclInProgress && !membership_.store->raised())
      report(str("ncclCommFinalize has not come to its end in ", seconds_of(membership_.timeout),
                 " s: aborted"));
  } catch (const std::exception&) {
    // The handle's destructor aborts the communicator; there is nowhere else to report the error.
  }
}

void NcclCommunicator::group(const std::string& where, const Calls& calls) {
  const auto stream = static_cast<cudaStream_t>(backend(device_.type).stream(device_));
  const NcclFunctions& functions = nccl();
  ncclResult_t taken;
  {
    const std::lock_guard lock(mutex_);
    const ncclComm_t handle = open_handle();
    taken = functions.ncclGroupStart();
    if (taken == ncclSuccess) {
      calls(functions, handle, stream);
      taken = functions.ncclGroupEnd();  // says what was wrong with the calls, too
    }
  }
  if (!is_taken(taken)) end(where, taken);
  wait_until_taken(where);
}

std::string NcclCommunicator::async_error() {
  const std::lock_guard lock(mutex_);
  ncclResult_t state = ncclSuccess;
  if (!handle_) return "";
  const ncclResult_t asked = nccl().ncclCommGetAsyncError(handle_.get(), &state);
  if (asked != ncclSuccess) state = asked;
  return is_taken(state) ? "" : words(state);
}

void NcclCommunicator::abort() noexcept {
  const std::lock_guard lock(mutex_);
  handle_.abort();
}

void NcclCommunicator::wait_until_taken(const std::string& where, const char* file, int line) {
  const ncclResult_t result = outcome(membership_.timeout);
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) end(where, result, file, line);
  membership_.end(str(where, ": ", membership_.waited(), " for NCCL"));
}

// The result of the last call; ncclInProgress: it timed out, or the group has failed.
ncclResult_t NcclCommunicator::outcome(Timeout patience) {
  const auto deadline = Clock::now() + patience;
  for (int asked = 0;; ++asked) {
    const ncclResult_t now = state();
    if (now != ncclInProgress || membership_.store->raised() || Clock::now() > deadline) return now;
    if (asked < kAskedAtOnce) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kAskedEvery);
    }
  }
}

ncclResult_t NcclCommunicator::state() {
  const std::lock_guard lock(mutex_);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().ncclCommGetAsyncError(open_handle(), &state);
  return asked == ncclSuccess ? state : asked;
}

ncclComm_t NcclCommunicator::open_handle() const {
  if (!handle_) throw Error(membership_.store->cause());
  return handle_.get();
}

// NCCL's last error is that of the thread that failed, and often more precise than the code.
std::string NcclCommunicator::words(ncclResult_t result) const {
  const char* last = nccl().ncclGetLastError(nullptr);  // it has one for all communicators
  const std::string code = nccl().ncclGetErrorString(result);
  return last && *last ? str(code, ": ", std::string(last, std::strcspn(last, "\n"))) : code;
}

void NcclCommunicator::report(const std::string& what) const {
  if (membership_.on_note)
    membership_.on_note(str("[group] ", membership_.id, ": the end of rank ", membership_.me(),
                            "'s communicator on ", device_, ": ", what));
}

void NcclCommunicator::end(const std::string& where, ncclResult_t result, const char* file,
                           int line) const {
  end_by_nccl(membership_, where, str(words(result), " (", file, ':', line, ')'));
}

void end_by_nccl(const Membership& membership, const std::string& where, const std::string& words) {
  membership.end_late(str(where, ": NCCL on rank ", membership.me(), ": ", words));
}

}  // namespace ringlet::comm
