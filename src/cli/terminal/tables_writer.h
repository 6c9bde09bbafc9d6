// Where a command's tables go, by --format and --output.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cli/terminal/output.h"
#include "views/table/data_table.h"

namespace ridgepoint::cli {

// Throws Error when the file cannot be written.
void write(const OutputOptions& options, const DataTable& table);

// Puts tables that grow out by --format and --output: a file is current after every change, standard output gets all
// of it at the end.
class TablesWriter {
 public:
  using MakeTables = std::function<std::vector<DataTable>(Format, std::size_t width)>;
  // Throws Error when the file cannot be written.
  TablesWriter(const OutputOptions& options, const MakeTables& tables);
  void table_changed();
  void finish();

 private:
  RowWriter writer_;
};

}  // namespace ridgepoint::cli
