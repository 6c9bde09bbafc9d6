// Copies a strided matrix operand of any floating dtype to dense row-major fp32 and back.
#pragma once

#include "runtime/matmul_problem.h"

namespace ridgepoint::cpu {

// The layout that pack_matrices() writes: dense fp32, with broadcast batch dimensions (stride 0) stored once.
StridedMatrix packed_layout(const MatmulProblem& problem, const StridedMatrix& matrix);
std::int64_t packed_elements(const MatmulProblem& problem, const StridedMatrix& matrix);

// `source` is element 0 of `matrix` (null for an immediate); `packed` holds packed_elements().
void pack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const void* source, float* packed);

// Rounds dense fp32 matrices to the dtype of `matrix` and writes them with its strides, none of which may be 0.
void unpack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const float* packed, void* target);

}  // namespace ridgepoint::cpu
