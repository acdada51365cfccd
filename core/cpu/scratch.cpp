#include "ringlet/core/cpu/scratch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/cpu/pages.h"

namespace ringlet::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kChunk = std::size_t{2} << 20;  // at least

std::atomic<std::size_t> all_bytes{0};

class Stack {
 public:
  Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { clear(); }

  void* take(std::size_t nbytes) {
    nbytes = (nbytes + kAlignment - 1) & ~(kAlignment - 1);
    if (chunks_.empty() || top + nbytes > chunks_[chunk].nbytes) next_chunk(nbytes);
    std::byte* data = chunks_[chunk].data + top;
    top += nbytes;
    return data;
  }

  void restore(std::size_t old_chunk, std::size_t old_top) {
    chunk = old_chunk;
    top = old_top;
    // An empty stack of several pieces is freed; its next use maps one piece of their total size.
    // Not here: mapping may throw, and this runs in destructors.
    if (chunk == 0 && top == 0 && chunks_.size() > 1) {
      for (const Pages& piece : chunks_) whole_ += piece.nbytes;
      clear();
    }
  }

  std::size_t chunk = 0;
  std::size_t top = 0;

 private:
  // If memory is refused, the memory already taken stays valid.
  void next_chunk(std::size_t nbytes) {
    std::size_t next = chunks_.empty() ? 0 : chunk + 1;
    while (next < chunks_.size() && chunks_[next].nbytes < nbytes) ++next;
    if (next == chunks_.size())
      add_chunk(std::max({nbytes, kChunk, std::exchange(whole_, std::size_t{0})}));
    chunk = next;
    top = 0;
  }

  void add_chunk(std::size_t nbytes) {
    chunks_.reserve(chunks_.size() + 1);
    const Pages chunk = map_private(nbytes);
    RINGLET_CHECK(chunk.data, "[scratch] no memory for ", nbytes, " bytes: ", std::strerror(errno));
    chunks_.push_back(chunk);
    all_bytes += chunk.nbytes;
  }

  void clear() {
    for (const Pages& piece : chunks_) {
      unmap(piece);
      all_bytes -= piece.nbytes;
    }
    chunks_.clear();
  }

  std::vector<Pages> chunks_;
  std::size_t whole_ = 0;  // the bytes of freed pieces, for the next first chunk
};

thread_local Stack stack;

}  // namespace

Scratch::Scratch(std::size_t nbytes)
    : chunk_(stack.chunk), top_(stack.top), data_(stack.take(nbytes)) {}

Scratch::~Scratch() { stack.restore(chunk_, top_); }

std::size_t scratch_bytes() { return all_bytes; }

}  // namespace ringlet::cpu
