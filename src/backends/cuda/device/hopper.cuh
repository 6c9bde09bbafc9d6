// Instructions of Hopper (sm_90a; PTX ISA 8, "Asynchronous Warpgroup Level Matrix Instructions" and "mbarrier"):
// barriers in shared memory, reallocation of registers between warpgroups, and matrix products of a warpgroup with the
// second operand in shared memory.
#pragma once

#include <cstdint>

#include "backends/cuda/device/shared_memory.cuh"

namespace ridgepoint::cuda {

inline constexpr int kWarpgroupThreads = 128;

// A barrier whose phase ends after `arrivals` arrivals. Parity tells phases apart; the first phase has parity 0.
struct SharedBarrier {
  std::uint64_t state;

  __device__ __forceinline__ void initialise(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
  }
  // Arrives when all earlier copy_in() of this thread have completed.
  __device__ __forceinline__ void arrive_with_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&state)) : "memory");
  }
  // Whether the phase of this parity has ended.
  __device__ __forceinline__ bool has_ended(unsigned parity) {
    unsigned ended;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(ended)
        : "r"(shared_address(&state)), "r"(parity)
        : "memory");
    return ended != 0;
  }
  // Waits until the phase of this parity has ended.
  __device__ __forceinline__ void wait(unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(&state)),
        "r"(parity)
        : "memory");
  }
};

// Makes this thread's writes to shared memory visible to the tensor cores; a barrier must follow.
__device__ __forceinline__ void publish_to_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Makes barriers that one thread initialised visible to the others; a __syncthreads() must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void acquire_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The layout of a second operand in shared memory: lines of 64 16-bit elements, 128 bytes. Eight lines are an atom, in
// which the 16-byte chunk c of line l is at chunk c ^ (l mod 8), so that neither reads nor writes have bank conflicts.
// If K is contiguous, each column is a line; otherwise each k is a line, and tiles of 64 columns follow one another.
inline constexpr int kLineElements = 64;
inline constexpr int kLineBytes = 128;
inline constexpr int kAtomBytes = 8 * kLineBytes;

__device__ __forceinline__ int swizzled(int line, int chunk) { return line * kLineBytes + ((chunk ^ (line & 7)) << 4); }

// Writes four 8 x 8 matrices of 16-bit elements; lane 8 i + r passes the address of row r of matrix i. A lane has
// elements 2 (lane % 4) and the next one of row lane / 4 of each matrix, packed, so a first operand of multiply().
__device__ __forceinline__ void store_matrices(std::uint32_t address, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// The matrix descriptor of such a tile. `block_bytes`: between tiles of 64 columns, if K is not contiguous.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t address, int block_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  return kSwizzle128 | (static_cast<std::uint64_t>(kAtomBytes >> 4) << 32) |
         (static_cast<std::uint64_t>(block_bytes >> 4) << 16) | ((address & 0x3FFFF) >> 4);
}
// The distance of 16 elements along K, in descriptor units.
template <bool kInnerContiguous>
inline constexpr int kDescriptorStep = (kInnerContiguous ? 16 * 2 : 2 * kAtomBytes) >> 4;

// begin_products() comes before the first product of a batch, when the accumulators are ready; end_products() after the
// last one. wait_for_products() waits until all but the newest kPending batches are done.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define RIDGEPOINT_R4(r, i) "+f"(r[i]), "+f"(r[i + 1]), "+f"(r[i + 2]), "+f"(r[i + 3])
#define RIDGEPOINT_R16(r, i) \
  RIDGEPOINT_R4(r, i), RIDGEPOINT_R4(r, i + 4), RIDGEPOINT_R4(r, i + 8), RIDGEPOINT_R4(r, i + 12)

// sum[64 x N] = (keep ? sum : 0) + a[64 x 16] b[16 x N], N = 128 or 64, in bf16 with fp32 sums, by a whole warpgroup.
// Thread t has rows r = 16 (t / 32) + t % 32 / 4 and r + 8. Of a it has columns k = 2 (t % 4) and k + 1, packed: a[0]
// in row r, a[1] in row r + 8, and a[2] and a[3] 8 columns further. Of sum it has columns 8 j + k and 8 j + k + 1:
// sum[4 j] and sum[4 j + 1] in row r, sum[4 j + 2] and sum[4 j + 3] in row r + 8. b is a tile_descriptor().
template <bool kBInnerContiguous>
__device__ __forceinline__ void multiply(float (&sum)[64], const unsigned (&a)[4], std::uint64_t b, bool keep) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
      "%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, keep, 1, 1, %70;\n"
      "}\n"
      : RIDGEPOINT_R16(sum, 0), RIDGEPOINT_R16(sum, 16), RIDGEPOINT_R16(sum, 32), RIDGEPOINT_R16(sum, 48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(keep)),
        "n"(kBInnerContiguous ? 0 : 1));
}

template <bool kBInnerContiguous>
__device__ __forceinline__ void multiply(float (&sum)[32], const unsigned (&a)[4], std::uint64_t b, bool keep) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31}, {%32,%33,%34,%35}, %36, keep, 1, 1, %38;\n"
      "}\n"
      : RIDGEPOINT_R16(sum, 0), RIDGEPOINT_R16(sum, 16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(keep)),
        "n"(kBInnerContiguous ? 0 : 1));
}

#undef RIDGEPOINT_R16
#undef RIDGEPOINT_R4

}  // namespace ridgepoint::cuda
