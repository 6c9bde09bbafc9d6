#include <span>

#include "inspect/profile/pages/page.h"
#include "record/record_table.h"
#include "ridgepoint/views.h"
#include "tables/table/render.h"

namespace ridgepoint {

using views::Format;

std::string to_text(const Record& record, std::size_t width) {
  return render(Format::table, views::records_page(std::span(&record, 1), Format::table), width);
}

std::string to_text(const Profile& profile, std::size_t width) {
  return render(Format::table, views::profile_page(std::span(&profile, 1), {}, Format::table), width);
}

}  // namespace ridgepoint
