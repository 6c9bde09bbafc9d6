#include "study/answers/topics.h"

namespace ridgepoint {

std::vector<StudyAnswer> answer_questions(const StudyRows& rows) {
  std::vector<StudyAnswer> all;
  for (const auto topic :
       {answers::about_steps, answers::about_kernels, answers::about_precision, answers::about_memory,
        answers::about_attention, answers::about_compilation, answers::about_checkpointing, answers::about_ranks}) {
    for (StudyAnswer& answer : topic(rows)) all.push_back(std::move(answer));
  }
  return all;
}

}  // namespace ridgepoint
