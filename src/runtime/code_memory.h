// Memory for machine code. Every mapping of a process counts against a limit of the system
// (vm.max_map_count), so blocks are cut from few large regions and not mapped one by one.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mote {

// Whole pages of a region, zeroed. They can be written until seal(). No page is ever writable and
// executable at once: blocks share regions, not pages. Pages of released blocks give their memory
// back and are used again; a region without blocks is unmapped. Threads: blocks may be made and
// released on any of them.
class CodeBlock {
 public:
  CodeBlock() = default;
  // `low`: below 2 GiB, where the system has such memory. Device error if there is none left.
  CodeBlock(size_t bytes, bool low);
  ~CodeBlock();
  CodeBlock(CodeBlock&& other) noexcept;
  CodeBlock& operator=(CodeBlock&& other) noexcept;

  // Makes the first `fixed` bytes, whole pages, executable and read-only. The rest stays writable.
  void seal(size_t fixed);

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Regions that are mapped now.
size_t code_regions();

}  // namespace mote
