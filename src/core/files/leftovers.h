// Temporary files and folders, and what stays of them when a process is killed.
//
// A process locks what it uses, and the system unlocks what it used at its end, however it ends: what nobody has locked
// was left.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ridgepoint {

// Locks a file or folder that is open, until it is closed. A file system without locks is no error.
void mark_in_use(int descriptor);

// Removes what is in `folder`, has such a name, belongs to this user, is a minute old and is not in use; once for each
// folder in a process. Problems are ignored.
void remove_leftovers(const std::filesystem::path& folder, const std::function<bool(std::string_view name)>& is_ours);

// The name of a temporary file that becomes `stem`, and whether a name is one. With an empty `stem`: of any.
std::string temporary_name(std::string_view stem, unsigned number);
bool is_temporary_name(std::string_view name, std::string_view stem);

}  // namespace ridgepoint
