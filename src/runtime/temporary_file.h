// Files that are written under a name of their own and then renamed, and those that a killed
// process left.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace mote {

// A new file whose name is `prefix` and what is_temporary_end() knows; -1, with errno, where
// `create` (with O_EXCL) fails. It is locked while it is open, where files can be locked.
int make_temporary(const std::string& prefix, std::string& name,
                   const std::function<int(const std::string&)>& create);
bool is_temporary_end(std::string_view end);

// Removes a temporary file that has lost its writer: nobody holds its lock. Where there are no
// locks, an hour must have passed since its last write.
void remove_if_abandoned(int folder, const char* name);

}  // namespace mote
