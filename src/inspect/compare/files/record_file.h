// Reads the files to compare: records of this program, files of other programs by a mapping, or the steps of a
// training.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ridgepoint/record/record.h"
#include "train/step_log.h"

namespace ridgepoint {

struct RecordFile {
  std::string path;
  std::vector<Record> records = {};
  // The fields that a mapping fills, by their JSON names; empty for records of this program, which have all.
  std::optional<std::set<std::string>> known_fields = {};
  // One sentence for each missing part of the file: a row that is cut off.
  std::vector<std::string> warnings = {};
  train::StepHistory history = {};  // of a training, which has no records
};

// Reads a JSON array or JSON Lines. A row that is cut off at the end of the file (a run was killed, the disk was full)
// is left out with a warning. If the file has no records, it is read by the mapping at `mapping_path`, unless the path
// is empty (foreign_records.h). For a folder of checkpoints, the history of steps is read. Throws Error that names the
// file, the row and what to do: unreadable, empty, no records, written by a newer version.
RecordFile read_record_file(const std::string& path, const std::string& mapping_path = "");

}  // namespace ridgepoint
