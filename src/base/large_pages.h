// Memory for tables that grow with the program. Fresh small pages are taken one fault at a time,
// and that costs more than filling them; a megabyte or more comes on large pages where there are
// any.
#pragma once
#include <memory_resource>

namespace mote {

std::pmr::memory_resource* large_pages();

}  // namespace mote
