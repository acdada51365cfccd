// Chunks: runs of bytes cut from segments. Each belongs to a pool. Free chunks of a pool serve that
// pool only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace ringlet::cuda {

struct ChunkPool {
  const void* stream;  // the owner: the stream that uses the bytes
  bool small;
  bool graphs;  // bytes that captured work uses: they are kept as long as graphs exist
  auto operator<=>(const ChunkPool&) const = default;
};

/// Free neighbours in a segment are merged, so no two free chunks are adjacent.
struct Chunk {
  std::byte* data;
  std::size_t nbytes;
  ChunkPool pool;
  std::uint64_t capture = 0;  // the capture that allocated it; 0: none
  bool free = false;
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
};

class Chunks {
 public:
  /// Removes the smallest free chunk of the pool with `wanted` bytes from the free ones; null if
  /// there is none.
  Chunk* take(const ChunkPool& pool, std::size_t wanted) {
    Chunk probe{nullptr, wanted, pool};
    FreeChunks& fitting = free_[pool];
    const auto found = fitting.lower_bound(&probe);
    if (found == fitting.end()) return nullptr;
    Chunk* chunk = *found;
    fitting.erase(found);
    chunk->free = false;
    return chunk;
  }

  /// A whole segment, not free.
  Chunk* add(const ChunkPool& pool, std::byte* data, std::size_t nbytes) {
    auto& slot = all_[data];
    slot = std::make_unique<Chunk>(Chunk{data, nbytes, pool});
    return slot.get();
  }

  /// Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk after it.
  void split(Chunk* chunk, std::size_t wanted) {
    auto rest = std::make_unique<Chunk>(Chunk{chunk->data + wanted, chunk->nbytes - wanted,
                                              chunk->pool, 0, true, chunk, chunk->next});
    if (chunk->next) chunk->next->previous = rest.get();
    chunk->next = rest.get();
    chunk->nbytes = wanted;
    free_[chunk->pool].insert(rest.get());
    all_[rest->data] = std::move(rest);
  }

  void put_back(Chunk* chunk) {
    chunk->free = true;
    if (chunk->next && chunk->next->free) absorb_next(chunk);
    if (chunk->previous && chunk->previous->free) {
      chunk = chunk->previous;
      free_[chunk->pool].erase(chunk);
      absorb_next(chunk);
    }
    free_[chunk->pool].insert(chunk);
  }

  /// Removes the segments that are entirely free, after gone(chunk); those of graphs only if
  /// `graphs`.
  template <class Gone>
  void drop_free_segments(bool graphs, Gone gone) {
    for (auto& [pool, chunks] : free_) {
      if (pool.graphs && !graphs) continue;
      std::erase_if(chunks, [&](Chunk* chunk) {
        if (chunk->previous || chunk->next) return false;
        gone(*chunk);
        all_.erase(chunk->data);
        return true;
      });
    }
  }

 private:
  struct BySize {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return a->nbytes != b->nbytes ? a->nbytes < b->nbytes : a->data < b->data;
    }
  };
  using FreeChunks = std::set<Chunk*, BySize>;

  void absorb_next(Chunk* chunk) {
    Chunk* gone = chunk->next;
    free_[gone->pool].erase(gone);
    chunk->nbytes += gone->nbytes;
    chunk->next = gone->next;
    if (chunk->next) chunk->next->previous = chunk;
    all_.erase(gone->data);
  }

  std::map<ChunkPool, FreeChunks> free_;
  std::map<std::byte*, std::unique_ptr<Chunk>> all_;
};

}  // namespace ringlet::cuda
