// Writes a memory snapshot that pytorch.org/memory_viz and Python's pickle open: a pickle of protocol 4 with the
// opcodes that the viewer knows (MemoryViz.js), or the same document as JSON where the path ends in .json. What is
// written is plain data of the caller; read_snapshot.h reads the file back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Sizes are bytes, times microseconds since 1970. Frames and stacks are named by their index, so that each is stored
// once; an entry without a stack has kNoStack.
struct SnapshotDocument {
  static constexpr std::uint32_t kNoStack = UINT32_MAX;

  struct Frame {
    std::string filename;
    int line = 0;
    std::string name;
  };
  // `free` stands for a release that is complete at once; free_requested and free_completed are not for writers.
  struct Event {
    SnapshotAction action = SnapshotAction::alloc;
    std::uint64_t address = 0;      // oom: the free bytes of the device
    std::uint64_t size_bytes = 0;   // of a block: as requested
    std::uint64_t block_bytes = 0;  // of a block: after rounding, in the field `block_size`; 0 leaves the field out
    std::int64_t time_us = 0;
    std::uint32_t stack = kNoStack;
    std::string category = {};  // empty: unknown
  };
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t requested_bytes = 0;
    BlockState state = BlockState::active_allocated;
    std::uint32_t stack = kNoStack;
    std::string category = {};
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    bool is_large = true;
    bool is_expandable = false;
    std::vector<Block> blocks;  // at least the live ones; the rest of the segment is written as inactive
    std::uint32_t stack = kNoStack;
  };
  struct Device {
    std::vector<Segment> segments;  // live at the end
    std::vector<Event> events;      // in order; every live block lies in a live segment at every event
  };
  struct Annotation {
    std::string name;
    bool is_start = false;
    std::size_t device = 0;
    std::int64_t time_us = 0;
  };

  std::vector<Frame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;  // the innermost frame first
  std::vector<Device> devices;
  std::vector<Annotation> annotations;
  std::string configuration;  // as PYTORCH_CUDA_ALLOC_CONF would say it
  bool overflowed = false;    // events were lost
};

// The file appears whole or not at all. Throws Error if it cannot be written, and Error (usage) if the blocks of a
// segment overlap or leave it, or if an index or an action is not one of those above.
void write_snapshot(const std::filesystem::path& path, const SnapshotDocument& document);

}  // namespace ridgepoint
