// What the lines of a stack say: which are hidden, as the viewer of PyTorch hides them, which belong to the framework,
// and which belong to the optimizer, to backward or to forward.
#pragma once

#include <string_view>

namespace ridgepoint {

struct FrameTraits {
  bool is_hidden = false;
  bool is_framework = false;
  bool in_optimizer = false;
  bool in_backward = false;
  bool in_forward = false;
};

FrameTraits frame_traits(std::string_view filename, std::string_view name);

}  // namespace ridgepoint
