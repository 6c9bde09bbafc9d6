// How fast a kernel runs, as shares of the rates of a GPU's datasheet: a column of the tables of kernel variants,
// beside workspaces. predict/time/kernel_time.h makes seconds of a row. The shares were fitted to measured times on an
// H200 and are carried over to other GPUs; docs/predicted_times.md has the rows and their errors. Device code includes
// this header, so it uses plain structs and no other header of the library.
#pragma once

namespace ridgepoint {

// A kernel that is bound by memory. Fixed seconds are those of a launch, of filling and draining the multiprocessors.
struct MemoryRate {
  double share = 0;  // of the bandwidth
  double fixed_seconds = 0;
  int reads = 1;  // of the first operand
};

// The datasheet's rate of which products reach a share. half: bf16 and fp16.
enum class PeakRate : unsigned char { fp32, tf32, half, fp8 };

struct ProductRate {
  PeakRate peak = PeakRate::half;
  double share = 0;
  double memory_share = 0;  // of the bandwidth, where the product is bound by memory
  double fixed_seconds = 0;
  bool is_assumed = false;  // whether no kernel was measured to which the share could be fitted
};

// A product with an epilogue, of whose accesses the sums of the product hide some.
struct EpilogueRate {
  ProductRate product;
  double memory_share = 0;  // of the bandwidth, for what is left of the accesses
  double reads = 1;         // how often the epilogue's operands count
  double writes = 1;        // and its results
  double fixed_seconds = 0;
};

struct AttentionRate {
  double share = 0;  // of PeakRate::half
  double fixed_seconds = 0;
  // What a block multiplies beyond the keys (in backward: queries) that it sees: tiles that reach past the diagonal,
  // and the idle time when it begins and ends.
  double overhead = 0;
  int block = 0;            // queries of a block, in backward keys; 0: as the kernel's tiling
  int width = 0;            // of a head, with its padding
  bool is_divided = false;  // whether multiprocessors share blocks, which are too few for them
};

}  // namespace ridgepoint
