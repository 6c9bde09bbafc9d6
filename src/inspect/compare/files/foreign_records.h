// Records made of the rows of another program's CSV or JSON file. A mapping is a JSON object from fields of a record,
// by their JSON names, to what fills them:
//   "batch": "bs"                            the column bs; in JSON the member bs, or "run.bs" of a nested object
//   "time_ms.samples": "latency_us * 0.001"  the column times a factor
//   "device.name": "= NVIDIA H200"           this text in every row; numbers need no quotes: "context": 1024
// Rows that agree in every field but the samples are one record; the samples stay in the order of the file. A cell may
// also have several samples: a JSON array, or numbers separated by semicolons.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/text/json.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

struct Mapping {
  struct Column {
    std::string name;
    double factor = 1;
  };
  struct Entry {
    std::string field;
    std::variant<Column, Json> source;  // Json: a constant
  };
  std::string path;
  std::vector<Entry> entries;

  std::set<std::string> fields() const;
};

// Throws Error with the path: unreadable, not a JSON object, an unknown field (with the nearest name), without
// time_ms.samples or time_ms.median.
Mapping read_mapping(const std::string& path);

// Throw Error with the row: a column that the file lacks, or a value of the wrong type.
std::vector<Record> map_csv(std::string_view text, const Mapping& mapping);
std::vector<Record> map_json(const std::vector<Json>& rows, const Mapping& mapping);

}  // namespace ridgepoint
