// The questions of a study by topic; one file each. Every sentence is made of the rows by rules.
#pragma once

#include <vector>

#include "study/answer.h"

namespace ridgepoint::answers {

std::vector<StudyAnswer> about_steps(const StudyRows& rows);
std::vector<StudyAnswer> about_variation(const StudyRows& rows);  // among those about steps
std::vector<StudyAnswer> about_kernels(const StudyRows& rows);
std::vector<StudyAnswer> about_precision(const StudyRows& rows);
std::vector<StudyAnswer> about_memory(const StudyRows& rows);
std::vector<StudyAnswer> about_attention(const StudyRows& rows);
std::vector<StudyAnswer> about_compilation(const StudyRows& rows);
std::vector<StudyAnswer> about_checkpointing(const StudyRows& rows);
std::vector<StudyAnswer> about_ranks(const StudyRows& rows);

}  // namespace ridgepoint::answers
