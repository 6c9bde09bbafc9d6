// A fake NCCL whose collectives compute nothing. It checks that calls come as NCCL takes them: within a group, with the
// communicator, on a stream that is not the default one. FAKE_NCCL_FAILS: the function of this name fails.
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalid = 4;
int depth = 0;
int joined = 0;

struct Id {
  char bytes[128];
};

int result_of(const char* function, bool is_valid) {
  const char* fails = std::getenv("FAKE_NCCL_FAILS");
  return is_valid && (fails == nullptr || std::strcmp(fails, function) != 0) ? kSuccess : kInvalid;
}

bool is_valid(const void* in, const void* out, std::size_t count, const void* handle, const void* stream) {
  return depth == 1 && in != nullptr && out != nullptr && count > 0 && handle == &joined && stream != nullptr;
}

}  // namespace

extern "C" {

int ncclGetUniqueId(Id* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return result_of("ncclGetUniqueId", true);
}
// The id is that which rank 0 made, on every rank.
int ncclCommInitRank(void** handle, int ranks, Id id, int rank) {
  *handle = &joined;
  ++joined;
  return result_of("ncclCommInitRank", ranks > rank && id.bytes[0] == 7 && id.bytes[127] == 7 && joined == 1);
}
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  --depth;
  return kSuccess;
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int, int, void* handle, void* stream) {
  return result_of("ncclAllReduce", is_valid(in, out, count, handle, stream));
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int, int, void* handle, void* stream) {
  return result_of("ncclReduceScatter", is_valid(in, out, count, handle, stream));
}
int ncclAllGather(const void* in, void* out, std::size_t count, int, void* handle, void* stream) {
  return result_of("ncclAllGather", is_valid(in, out, count, handle, stream));
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int, int, void* handle, void* stream) {
  return result_of("ncclBroadcast", is_valid(in, out, count, handle, stream));
}
const char* ncclGetErrorString(int) { return "invalid argument"; }
const char* ncclGetLastError(void*) { return "of a test"; }

}  // extern "C"
