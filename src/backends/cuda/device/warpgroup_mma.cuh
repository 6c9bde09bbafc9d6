// Matrix products of a warpgroup on Hopper's tensor cores (PTX ISA 8, "Asynchronous Warpgroup Level Matrix
// Instructions"): 16-bit elements, sums in fp32. hopper.cuh has the layout of operands in shared memory and the order
// of calls around a batch of products.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "backends/cuda/device/hopper.cuh"

namespace ridgepoint::cuda {

// Which index of an operand is contiguous in shared memory: k, that of the sum, or the other one.
enum class Contiguous { k, other };

// sum[64 x kColumns] = (keep ? sum : 0) + a[64 x 16] b[16 x kColumns], by a whole warpgroup. Thread t has rows
// r = 16 (t / 32) + t % 32 / 4 and r + 8. Of sum it has columns 8 j + k and 8 j + k + 1, k = 2 (t % 4): sum[4 j] and
// sum[4 j + 1] in row r, sum[4 j + 2] and sum[4 j + 3] in row r + 8.
// b is a tile_descriptor(). a is one too, or in registers: columns k and k + 1 of a, packed, are a[0] in row r and a[1]
// in row r + 8; a[2] and a[3] are 8 columns further. So two adjacent columns of a sum are the a of another product.
template <class Element, int kColumns>
struct WarpgroupProduct;

// clang-format off
#define RIDGEPOINT_N0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define RIDGEPOINT_N8 "%8,%9,%10,%11,%12,%13,%14,%15"
#define RIDGEPOINT_N16 "%16,%17,%18,%19,%20,%21,%22,%23"
#define RIDGEPOINT_N24 "%24,%25,%26,%27,%28,%29,%30,%31"
#define RIDGEPOINT_N32 "%32,%33,%34,%35,%36,%37,%38,%39"
#define RIDGEPOINT_N40 "%40,%41,%42,%43,%44,%45,%46,%47"
#define RIDGEPOINT_N48 "%48,%49,%50,%51,%52,%53,%54,%55"
#define RIDGEPOINT_N56 "%56,%57,%58,%59,%60,%61,%62,%63"
#define RIDGEPOINT_N64 "%64,%65,%66,%67,%68,%69,%70,%71"
#define RIDGEPOINT_N72 "%72,%73,%74,%75,%76,%77,%78,%79"
#define RIDGEPOINT_N80 "%80,%81,%82,%83,%84,%85,%86,%87"
#define RIDGEPOINT_N88 "%88,%89,%90,%91,%92,%93,%94,%95"
#define RIDGEPOINT_N96 "%96,%97,%98,%99,%100,%101,%102,%103"
#define RIDGEPOINT_N104 "%104,%105,%106,%107,%108,%109,%110,%111"
#define RIDGEPOINT_N112 "%112,%113,%114,%115,%116,%117,%118,%119"
#define RIDGEPOINT_N120 "%120,%121,%122,%123,%124,%125,%126,%127"
#define RIDGEPOINT_S8(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), \
    "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])

// One instruction in both forms. `numbers` and `sums` list the operands of the sum; the others follow.
#define RIDGEPOINT_WARPGROUP_PRODUCT(element, type, columns, numbers, o0, o1, o2, o3, o4, o5, o6, ...)                 \
  template <>                                                                                                          \
  struct WarpgroupProduct<element, columns> {                                                                          \
    template <Contiguous kA, Contiguous kB>                                                                            \
    static __device__ __forceinline__ void add(float (&sum)[columns / 2], std::uint64_t a, std::uint64_t b,            \
                                               bool keep) {                                                            \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " o2 ", 0;\n"                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" numbers "}, " o0 ", " o1    \
                   ", keep, 1, 1, " o3 ", " o4 ";\n}\n"                                                                \
                   : __VA_ARGS__                                                                                       \
                   : "l"(a), "l"(b), "r"(static_cast<int>(keep)), "n"(kA == Contiguous::k ? 0 : 1),                    \
                     "n"(kB == Contiguous::k ? 0 : 1));                                                                \
    }                                                                                                                  \
    template <Contiguous kB>                                                                                           \
    static __device__ __forceinline__ void add(float (&sum)[columns / 2], const unsigned (&a)[4], std::uint64_t b,     \
                                               bool keep) {                                                            \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " o5 ", 0;\n"                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" numbers "}, {" o0 "," o1    \
                   "," o2 "," o3 "}, " o4 ", keep, 1, 1, " o6 ";\n}\n"                                                 \
                   : __VA_ARGS__                                                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(keep)),                  \
                     "n"(kB == Contiguous::k ? 0 : 1));                                                                \
    }                                                                                                                  \
  };
#define RIDGEPOINT_WARPGROUP_PRODUCTS(columns, numbers, o0, o1, o2, o3, o4, o5, o6, ...)                               \
  RIDGEPOINT_WARPGROUP_PRODUCT(__nv_bfloat16, "bf16", columns, numbers, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__)        \
  RIDGEPOINT_WARPGROUP_PRODUCT(__half, "f16", columns, numbers, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__)

RIDGEPOINT_WARPGROUP_PRODUCTS(32, RIDGEPOINT_N0 "," RIDGEPOINT_N8, "%16", "%17", "%18", "%19", "%20", "%21", "%22", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8))
RIDGEPOINT_WARPGROUP_PRODUCTS(64, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24, "%32", "%33", "%34", "%35", "%36", "%37", "%38", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24))
RIDGEPOINT_WARPGROUP_PRODUCTS(80, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32, "%40", "%41", "%42", "%43", "%44", "%45", "%46", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32))
RIDGEPOINT_WARPGROUP_PRODUCTS(96, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40, "%48", "%49", "%50", "%51", "%52", "%53", "%54", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40))
RIDGEPOINT_WARPGROUP_PRODUCTS(112, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48, "%56", "%57", "%58", "%59", "%60", "%61", "%62", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48))
RIDGEPOINT_WARPGROUP_PRODUCTS(128, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56, "%64", "%65", "%66", "%67", "%68", "%69", "%70", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56))
RIDGEPOINT_WARPGROUP_PRODUCTS(144, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56 "," RIDGEPOINT_N64, "%72", "%73", "%74", "%75", "%76", "%77", "%78", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56), RIDGEPOINT_S8(64))
RIDGEPOINT_WARPGROUP_PRODUCTS(160, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56 "," RIDGEPOINT_N64 "," RIDGEPOINT_N72, "%80", "%81", "%82", "%83", "%84", "%85", "%86", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56), RIDGEPOINT_S8(64), RIDGEPOINT_S8(72))
RIDGEPOINT_WARPGROUP_PRODUCTS(176, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56 "," RIDGEPOINT_N64 "," RIDGEPOINT_N72 "," RIDGEPOINT_N80, "%88", "%89", "%90", "%91", "%92", "%93", "%94", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56), RIDGEPOINT_S8(64), RIDGEPOINT_S8(72), RIDGEPOINT_S8(80))
RIDGEPOINT_WARPGROUP_PRODUCTS(192, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56 "," RIDGEPOINT_N64 "," RIDGEPOINT_N72 "," RIDGEPOINT_N80 "," RIDGEPOINT_N88, "%96", "%97", "%98", "%99", "%100", "%101", "%102", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56), RIDGEPOINT_S8(64), RIDGEPOINT_S8(72), RIDGEPOINT_S8(80), RIDGEPOINT_S8(88))
RIDGEPOINT_WARPGROUP_PRODUCTS(256, RIDGEPOINT_N0 "," RIDGEPOINT_N8 "," RIDGEPOINT_N16 "," RIDGEPOINT_N24 "," RIDGEPOINT_N32 "," RIDGEPOINT_N40 "," RIDGEPOINT_N48 "," RIDGEPOINT_N56 "," RIDGEPOINT_N64 "," RIDGEPOINT_N72 "," RIDGEPOINT_N80 "," RIDGEPOINT_N88 "," RIDGEPOINT_N96 "," RIDGEPOINT_N104 "," RIDGEPOINT_N112 "," RIDGEPOINT_N120, "%128", "%129", "%130", "%131", "%132", "%133", "%134", RIDGEPOINT_S8(0), RIDGEPOINT_S8(8), RIDGEPOINT_S8(16), RIDGEPOINT_S8(24), RIDGEPOINT_S8(32), RIDGEPOINT_S8(40), RIDGEPOINT_S8(48), RIDGEPOINT_S8(56), RIDGEPOINT_S8(64), RIDGEPOINT_S8(72), RIDGEPOINT_S8(80), RIDGEPOINT_S8(88), RIDGEPOINT_S8(96), RIDGEPOINT_S8(104), RIDGEPOINT_S8(112), RIDGEPOINT_S8(120))

#undef RIDGEPOINT_WARPGROUP_PRODUCTS
#undef RIDGEPOINT_WARPGROUP_PRODUCT
#undef RIDGEPOINT_S8
#undef RIDGEPOINT_N0
#undef RIDGEPOINT_N8
#undef RIDGEPOINT_N16
#undef RIDGEPOINT_N24
#undef RIDGEPOINT_N32
#undef RIDGEPOINT_N40
#undef RIDGEPOINT_N48
#undef RIDGEPOINT_N56
#undef RIDGEPOINT_N64
#undef RIDGEPOINT_N72
#undef RIDGEPOINT_N80
#undef RIDGEPOINT_N88
#undef RIDGEPOINT_N96
#undef RIDGEPOINT_N104
#undef RIDGEPOINT_N112
#undef RIDGEPOINT_N120
// clang-format on

}  // namespace ridgepoint::cuda
