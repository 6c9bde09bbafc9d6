// An answer to a question of the exercise, from the rows of a study.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/plan/plan.h"
#include "study/study_rows.h"

namespace ridgepoint {

// One figure, or a few, that the answer rests on.
struct StudyEvidence {
  StudyPart part = StudyPart::devices;  // whose rows it comes from
  std::string text = {};                // "small, fp32, 4 x 256: forward 12.1 ms, backward 25.3 ms"
};

// A published answer to the same question, and whether this study agrees.
struct StudyClaim {
  enum class Verdict : std::uint8_t { confirmed, contradicted, not_comparable };
  std::string source = {};  // the study of data/published: unnamed_card
  std::string text = {};    // "softmax took 12 % of the time of attention, at 1/206 of its operations"
  Verdict verdict = Verdict::not_comparable;
  std::string reason = {};  // of the verdict, with the figure of this study
};

constexpr StudyClaim::Verdict agreement(bool agrees) {
  return agrees ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted;
}

struct StudyAnswer {
  std::string topic =
      {};  // the heading that it stands under: "Steps", "Kernels", "Precision", "Memory", "Attention", ...
  std::string question = {};  // "Which kernel takes the most time in a forward pass, and how often does it run?"
  std::string sentence = {};  // one to four sentences
  std::vector<StudyEvidence> evidence = {};
  std::vector<StudyClaim> elsewhere = {};
  std::optional<StudyPart> missing = {};  // the part whose rows a question without an answer needs

  // Adds a sentence.
  template <typename... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    sentence += (sentence.empty() ? "" : " ") + fmt::format(text, std::forward<Args>(args)...);
  }
  // Adds a figure of the evidence.
  template <typename... Args>
  void add(StudyPart part, fmt::format_string<Args...> text, Args&&... args) {
    evidence.push_back({part, fmt::format(text, std::forward<Args>(args)...)});
  }
};

// The answers in the order of the exercise. If the rows of a question are missing or all failed, the answer names the
// part without rows, and has no evidence.
std::vector<StudyAnswer> answer_questions(const StudyRows& rows);

}  // namespace ridgepoint
