#include "backends/cuda/attention/linear/linear_attention.cuh"

RIDGEPOINT_LINEAR_ATTENTION(fp16, __half, 64, 128)
RIDGEPOINT_LINEAR_ATTENTION(fp16, __half, 64, 256)
RIDGEPOINT_LINEAR_SCANS(fp16_128_wide, __half, 64, 128, ridgepoint::cuda::kWideSlice)
