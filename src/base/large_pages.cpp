#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/error.h"
#include "base/integers.h"

namespace mote {

namespace {

constexpr size_t kPage = 2 << 20, kLeast = 1 << 20;

size_t whole_pages(size_t bytes) { return round_up(bytes, kPage); }

class LargePages : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t align) override {
    if (bytes < kLeast) return std::pmr::new_delete_resource()->allocate(bytes, align);
    // Only what is aligned can be one large page: the ends that are too much go back.
    const size_t size = whole_pages(bytes);
    const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    void* p = mmap(nullptr, size + kPage, access, kind, -1, 0);
    if (p == MAP_FAILED)
      fail(ErrorKind::Device,
           text("out of memory: the host has no ", size, " bytes left for a table of the graph"));
    char* begin = static_cast<char*>(p);
    const size_t before = (kPage - reinterpret_cast<uintptr_t>(begin) % kPage) % kPage;
    if (before) munmap(begin, before);
    if (before < kPage) munmap(begin + before + size, kPage - before);
    madvise(begin + before, size, MADV_HUGEPAGE);
    return begin + before;
  }
  void do_deallocate(void* p, size_t bytes, size_t align) override {
    if (bytes < kLeast) return std::pmr::new_delete_resource()->deallocate(p, bytes, align);
    munmap(p, whole_pages(bytes));
  }
  bool do_is_equal(const memory_resource& o) const noexcept override { return this == &o; }
};

}  // namespace

std::pmr::memory_resource* large_pages() {
  static auto* all = new LargePages;
  return all;
}

}  // namespace mote
