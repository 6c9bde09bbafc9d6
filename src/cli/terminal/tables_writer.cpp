#include "cli/terminal/tables_writer.h"

#include <cstdint>
#include <string>

namespace ridgepoint::cli {

void write(const OutputOptions& options, const DataTable& table) {
  TablesWriter(options, [&](Format, std::size_t) { return std::vector{table}; }).finish();
}

TablesWriter::TablesWriter(const OutputOptions& options, const MakeTables& tables)
    : writer_(options,
              {[tables](Format format, std::size_t width) { return render(format, tables(format, width), width); },
               [tables](Format format) { return render(format, tables(format, SIZE_MAX)); }}) {}

void TablesWriter::table_changed() {
  if (!writer_.path().empty()) writer_.row_added();
}

void TablesWriter::finish() {
  writer_.row_added();
  writer_.finish();
}

}  // namespace ridgepoint::cli
