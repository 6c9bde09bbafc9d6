// The kernels of a trace whose work is known, against the datasheet of their card.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inspect/profile/views.h"
#include "predict/cards/datasheet.h"

namespace ridgepoint {

// By class, longest first. Each row has the kernels whose work is known.
struct TraceRoofline {
  std::string card;  // "H100 SXM"
  double bytes_per_second = 0;
  std::vector<RooflineRow> classes;
};

// The type in which a kernel multiplies numbers of `dtype`. In fp32 its name may tell whether that is TF32; otherwise
// "fp32 or tf32", of which no datasheet has a rate.
std::string_view arithmetic_of(std::string_view dtype, std::string_view kernel);

class RooflineOfTrace {
 public:
  explicit RooflineOfTrace(const Datasheet& card) : card_(card) {}

  // `dtype` is that of what is multiplied; empty: unknown. Products and attention count only where it has a rate.
  void add(KernelClass kernel_class, std::string_view kernel, const KernelSum& work, std::string_view dtype);
  TraceRoofline finish();

 private:
  const Datasheet& card_;
  std::map<std::pair<KernelClass, std::string_view>, RooflineGroup> groups_;
};

}  // namespace ridgepoint
