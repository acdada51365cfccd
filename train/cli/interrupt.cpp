#include "ringlet/train/cli/interrupt.h"

#include <atomic>
#include <chrono>

#include "ringlet/comm/launcher/signals.h"

namespace ringlet::cli {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t noted = 0;
volatile std::sig_atomic_t from_terminal = 0;
std::atomic<Clock::time_point> noted_at{};
std::atomic<int> guards = 0;  // of ranks that are threads each has one

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// A second SIGINT ends the process. SIGTERM and SIGHUP may come twice, to the rank and through its
// launcher. SIGKILL ends a rank that does not end. comm::launch() passes signals on by
// sigqueue().
void note(int signal, siginfo_t* info, void*) {
  const Clock::time_point now = Clock::now();
  if (signal == SIGINT && noted == SIGINT && info->si_code != SI_QUEUE &&
      now > noted_at.load() + comm::kCopies) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // takes effect on return
    return;
  }
  if (noted != signal) noted_at = now;
  noted = signal;
  from_terminal = info->si_code == SI_KERNEL;
}

void install(int signal, struct sigaction& former) {
  struct sigaction action {};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(signal, nullptr, &former);
  if (former.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (guards++ == 0) noted = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) install(kSignals[i], former_[i]);
}

InterruptGuard::~InterruptGuard() {
  --guards;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

int InterruptGuard::caught() const { return noted; }
int InterruptGuard::caught_alone() const { return from_terminal ? 0 : noted; }

}  // namespace ringlet::cli
