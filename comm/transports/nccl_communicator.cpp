#include "ringlet/comm/transports/nccl_communicator.h"

#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ringlet/comm/store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/thread.h"
#include "ringlet/cuda/shared_library.h"

namespace ringlet::comm {
namespace {

const NcclFunctions* in_their_place = nullptr;

NcclFunctions load() {
  const cuda::NcclLibrary& library = cuda::open_nccl();
  cuda::check_nccl_version(library.version);
  NcclFunctions functions{};
#define RINGLET_FIND(function) library.file.find(functions.function, #function);
  RINGLET_NCCL_FUNCTIONS(RINGLET_FIND)
#undef RINGLET_FIND
  return functions;
}

}  // namespace

const NcclFunctions& nccl() {
  if (in_their_place) return *in_their_place;
  static const NcclFunctions functions = load();
  return functions;
}

void set_nccl(const NcclFunctions* functions) { in_their_place = functions; }

namespace {

// NCCL goes back to the thread's current device, and were that none, there would be a context on
// the first one.
void make_current(Device device) noexcept {
  try {
    backend(device.type).stream(device);
  } catch (const std::exception&) {
    // The device has failed: NCCL finds that out as well.
  }
}

/// The threads that end communicators. It is made after CUDA, and so destroyed before.
class Endings {
 public:
  ~Endings() {
    const auto deadline = std::chrono::steady_clock::now() + nccl().patience;
    for (const std::shared_future<void>& ended : all_) ended.wait_until(deadline);
  }
  void add(const std::shared_future<void>& ended) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& one) {
      return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    all_.push_back(ended);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_future<void>> all_;
};

}  // namespace

NcclHandle::~NcclHandle() {
  abort();
  if (!ended_.valid() || ended_.wait_for(nccl().patience) == std::future_status::ready) return;
  try {
    report_(str(ending_, " has not come back in ", seconds_of(nccl().patience), " s: left behind"));
  } catch (const std::exception&) {
    // The callback threw; there is nowhere else to report it.
  }
}

void NcclHandle::end(const char* name, ncclResult_t (*call)(ncclComm_t)) noexcept {
  const ncclComm_t handle = std::exchange(handle_, nullptr);
  ending_ = name;
  try {
    std::packaged_task<void()> task([handle, call, device = device_] {
      make_current(device);
      call(handle);
    });
    ended_ = task.get_future().share();
    static Endings endings;
    endings.add(ended_);
    start_thread(std::move(task)).detach();
  } catch (const std::exception&) {  // there is no thread to be had
    call(handle);
  }
}

namespace {

using Clock = std::chrono::steady_clock;

// Number of polls of a call before the waiting thread sleeps between them. Most calls take
// microseconds; those that make connections take seconds.
constexpr int kAskedAtOnce = 1000;
constexpr auto kAskedEvery = std::chrono::microseconds(200);

// Blocks of NCCL's kernels on a GPU: the other multiprocessors are for computation beside them.
// NCCL_MAX_CTAS overrides it.
constexpr int kMostCtas = 24;

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
  config.maxCTAs = kMostCtas;
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
