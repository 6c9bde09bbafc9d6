#include "backends/cuda/attention/linear/linear_attention.cuh"

RIDGEPOINT_LINEAR_ATTENTION(bf16, __nv_bfloat16, 64, 128)
RIDGEPOINT_LINEAR_ATTENTION(bf16, __nv_bfloat16, 64, 256)
RIDGEPOINT_LINEAR_SCANS(bf16_128_wide, __nv_bfloat16, 64, 128, ridgepoint::cuda::kWideSlice)
