#include "backends/cuda/attention/linear/linear_attention.cuh"

RIDGEPOINT_LINEAR_ATTENTION(fp32, float, 32, 128)
RIDGEPOINT_LINEAR_ATTENTION(fp32, float, 16, 256)
