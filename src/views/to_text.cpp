#include "ridgepoint/views.h"
#include "views/profile/tables.h"
#include "views/record_table.h"

namespace ridgepoint {

std::string to_text(const Record& record, std::size_t width) {
  return cli::records_as_text(std::span(&record, 1), width);
}

std::string to_text(const Profile& profile, std::size_t width) {
  cli::ProfileViewOptions options;
  options.width = width;
  return cli::profile_as_text(profile, options);
}

}  // namespace ridgepoint
