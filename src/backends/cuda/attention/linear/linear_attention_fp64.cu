#include "backends/cuda/attention/linear/linear_attention.cuh"

RIDGEPOINT_LINEAR_ATTENTION(fp64, double, 16, 128)
RIDGEPOINT_LINEAR_ATTENTION(fp64, double, 16, 256)
