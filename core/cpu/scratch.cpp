#include "ringlet/core/cpu/scratch.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "ringlet/core/error.h"

namespace ringlet::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

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
    // An empty stack in pieces becomes one piece that holds all of them at the next use.
    if (chunk == 0 && top == 0 && chunks_.size() > 1) {
      std::size_t total = 0;
      for (const Chunk& piece : chunks_) total += piece.nbytes;
      clear();
      add_chunk(total);
    }
  }

  std::size_t chunk = 0;
  std::size_t top = 0;

 private:
  struct Chunk {
    std::byte* data;
    std::size_t nbytes;
  };

  void next_chunk(std::size_t nbytes) {
    for (top = 0; chunk + 1 < chunks_.size();)
      if (chunks_[++chunk].nbytes >= nbytes) return;
    add_chunk(std::max(nbytes, kHugePage));
    chunk = chunks_.size() - 1;
  }

  void add_chunk(std::size_t nbytes) {
    nbytes = (nbytes + kHugePage - 1) & ~(kHugePage - 1);
    void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RINGLET_CHECK(data != MAP_FAILED, "[scratch] no memory for ", nbytes, " bytes");
    madvise(data, nbytes, MADV_HUGEPAGE);
    chunks_.push_back({static_cast<std::byte*>(data), nbytes});
  }

  void clear() {
    for (const Chunk& piece : chunks_) munmap(piece.data, piece.nbytes);
    chunks_.clear();
  }

  std::vector<Chunk> chunks_;
};

thread_local Stack stack;

}  // namespace

Scratch::Scratch(std::size_t nbytes)
    : chunk_(stack.chunk), top_(stack.top), data_(stack.take(nbytes)) {}

Scratch::~Scratch() { stack.restore(chunk_, top_); }

}  // namespace ringlet::cpu
