// The state of a program as it was between two steps, as far as this rank writes it to a checkpoint.
// Optimizers change the whole state in every step, so a step must wait until the copy is made. A GPU's connection to
// the host is much slower than its memory: 47 GB/s and 3 TB/s on an H100. If the device has room, steps wait only for a
// copy on the device, which is copied to the host beside later steps.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "runtime/device/offload_file.h"

namespace ridgepoint::train {

// Memory of a device and of the programs on it, in bytes.
struct DeviceUse {
  std::size_t total = 0;      // of the device, or its limit
  std::size_t available = 0;  // now, beside all that is allocated
  std::size_t peak = 0;       // what the programs reserve by their forecasts
  std::size_t reserved = 0;   // and of that now
};
// The memory that a copy may take: the rest, less the memory that libraries take in first steps.
std::size_t room_of_copy(const DeviceUse& use);

class StateCopy {
 public:
  // Allocates the host memory for the copy, and as much device memory if that is at most `room_bytes` and the device
  // has copy engines. The ranks divide tensors that all of them have.
  StateCopy(Program& program, std::size_t rank, std::size_t ranks, std::size_t room_bytes);
  ~StateCopy();
  StateCopy(const StateCopy&) = delete;
  StateCopy& operator=(const StateCopy&) = delete;

  // Of the program, including tensors that other ranks write.
  const std::vector<StatePart>& parts() const { return parts_; }
  // What this rank writes.
  std::vector<const StatePart*> written() const;
  // The device memory that the copy needs, 0 if the device has no copy engines; and the memory that it has.
  std::size_t needed_device_bytes() const { return copies_ != nullptr ? bytes_of_device_ : 0; }
  std::size_t device_bytes() const { return on_device_ != nullptr ? bytes_of_device_ : 0; }

  // Called between two steps: waits for the first; the second may begin when this returns.
  void take();
  // Copies the result of take() to the host, in any thread. Then bytes() has it until the next take().
  void bring();
  // Empty if this rank does not write the tensor. For a state on disk, valid until the next call.
  std::span<const std::byte> bytes(const std::string& name) const;

 private:
  struct Place {
    std::size_t part = 0, offset = 0, bytes = 0;  // part: of parts_; offset: of the memory or the file
  };

  static bool is_of_first_rank(const StatePart& part);
  void choose_places(std::size_t rank, std::size_t ranks);
  void add_place(std::size_t part, std::size_t& end, std::size_t alignment);
  void make_host_memory();
  void make_file();

  Program& program_;
  const std::vector<StatePart> parts_;
  std::vector<Place> places_;
  std::unordered_map<std::string, std::size_t> place_of_;  // by name
  std::size_t memory_bytes_ = 0;
  std::size_t bytes_of_device_ = 0;      // the first of them: copies of what lies in the device's memory
  std::unique_ptr<std::byte[]> memory_;  // NOLINT(cppcoreguidelines-avoid-c-arrays)
  std::shared_ptr<void> locked_;         // ends before the memory does
  // States on disk are copied to another file, because writing a checkpoint may take longer than the next step.
  std::size_t bytes_of_file_ = 0;
  mutable std::vector<std::byte> of_file_;  // one tensor
  std::unique_ptr<OffloadFile> file_;       // null where the program has none
  std::unique_ptr<DeviceCopies> copies_;
  std::byte* on_device_ = nullptr;
};

}  // namespace ridgepoint::train
