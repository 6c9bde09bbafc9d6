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

  FrameTraits operator|(const FrameTraits& other) const {
    return {is_hidden || other.is_hidden, is_framework || other.is_framework, in_optimizer || other.in_optimizer,
            in_backward || other.in_backward, in_forward || other.in_forward};
  }
};

// Of the file of a line and of its function; the traits of the line are both.
FrameTraits traits_of_filename(std::string_view filename);
FrameTraits traits_of_name(std::string_view name);

}  // namespace ridgepoint
