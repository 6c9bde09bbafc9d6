// What the lines of a stack say: which are hidden, as the viewer of PyTorch hides them, which belong to the framework,
// and which belong to the optimizer, to backward, to forward, or to a call that empties the cache.
#pragma once

#include <string_view>

namespace ridgepoint {

struct FrameTraits {
  bool is_hidden = false;
  bool is_framework = false;
  bool is_native = false;  // C++, as of files with stacks='all'
  bool in_optimizer = false;
  bool in_backward = false;
  bool in_forward = false;
  bool empties_cache = false;
  bool is_marked = false;  // has the text that the reader was asked for

  FrameTraits operator|(const FrameTraits& other) const {
    return {.is_hidden = is_hidden || other.is_hidden,
            .is_framework = is_framework || other.is_framework,
            .is_native = is_native || other.is_native,
            .in_optimizer = in_optimizer || other.in_optimizer,
            .in_backward = in_backward || other.in_backward,
            .in_forward = in_forward || other.in_forward,
            .empties_cache = empties_cache || other.empties_cache,
            .is_marked = is_marked || other.is_marked};
  }
};

// Of the file of a line and of its function; the traits of the line are both.
FrameTraits traits_of_filename(std::string_view filename);
FrameTraits traits_of_name(std::string_view name);

}  // namespace ridgepoint
