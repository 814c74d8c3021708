// Calls every row of the table once, each in a process of its own, on the emulated libraries, and
// says what came of it: one line a row,
//   NAME STYLE RESULT ERRNO USED RECORDS
// STYLE: what the row promises to leave: "blocks", "point" or "silent"; "queued" for a copy that
// waits, but not between the places on the device that it is called with here. RESULT: the return
// value, a text in quotes, "absent" when no library has it, or "signal N". USED and RECORDS only
// with the shim in front: whether the row's bit was set, and the kinds of records that the call
// left ("BE", "P", "-").
//
// Arguments are made by type from a small world: a context, a stream, an event, memory, a kernel, a
// graph, a communicator of one. What a row needs beyond that is in MakeWorld and Prepare.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"
#include "tests/unit/interpose/ring_reader.h"

namespace ring = gordian::ring;

namespace {

constexpr int kErrnoBefore = 4711;
constexpr size_t kBytes = 1 << 16;
constexpr char kPtx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry Nothing()\n{\n  ret;\n}\n";

struct World {
  cudaStream_t stream = nullptr;
  cudaStream_t spare_stream = nullptr;
  cudaEvent_t event = nullptr;
  CUcontext context = nullptr;
  void* memory = nullptr;
  void* host = nullptr;
  CUfunction kernel = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  cudaIpcEventHandle_t ipc = {};
  void* registered = nullptr;
};
World g_world;
alignas(64) char g_scratch[24][4096];
int g_next_scratch = 0;

void Need(bool fine, const char* what) {
  if (fine) return;
  std::printf("world: %s failed\n", what);
  std::fflush(stdout);
  _exit(3);
}
#define NEED(call) Need(static_cast<int>(call) == 0, #call)

void MakeWorld(std::string_view library) {
  World& w = g_world;
  NEED(cudaSetDevice(0));
  NEED(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
  NEED(cudaStreamCreateWithFlags(&w.spare_stream, cudaStreamNonBlocking));
  NEED(cudaEventCreateWithFlags(&w.event, cudaEventDisableTiming | cudaEventInterprocess));
  NEED(cudaMalloc(&w.memory, kBytes));
  NEED(cudaMallocHost(&w.host, kBytes));
  NEED(cuCtxGetCurrent(&w.context));
  CUmodule module = nullptr;
  NEED(cuModuleLoadData(&module, kPtx));
  NEED(cuModuleGetFunction(&w.kernel, module, "Nothing"));
  NEED(cudaGraphCreate(&w.graph, 0));
  NEED(cudaGraphInstantiate(&w.executable, w.graph, 0));
  NEED(cudaIpcGetEventHandle(&w.ipc, w.event));
  NEED(ncclGetUniqueId(&w.id));
  if (library == "nccl") NEED(ncclCommInitRank(&w.comm, 1, w.id, 0));
  w.registered = aligned_alloc(4096, kBytes);
  NEED(cudaHostRegister(w.registered, kBytes, 0));
}

template <typename Result, typename... Parameters>
Result Nothing(Parameters...) {
  return Result();
}
template <typename T>
struct FunctionOf;
template <typename Result, typename... Parameters>
struct FunctionOf<Result (*)(Parameters...)> {
  static constexpr Result (*kFunction)(Parameters...) = Nothing<Result, Parameters...>;
};

// An argument of a type, where nothing more is known about it.
template <typename T>
T Argument() {
  World& w = g_world;
  char* const scratch = g_scratch[g_next_scratch++];
  if constexpr (std::is_same_v<T, cudaStream_t>) {
    return w.stream;
  } else if constexpr (std::is_same_v<T, cudaEvent_t>) {
    return w.event;
  } else if constexpr (std::is_same_v<T, CUcontext>) {
    return w.context;
  } else if constexpr (std::is_same_v<T, CUfunction> || std::is_same_v<T, cudaKernel_t>) {
    return reinterpret_cast<T>(w.kernel);
  } else if constexpr (std::is_same_v<T, cudaGraph_t>) {
    return w.graph;
  } else if constexpr (std::is_same_v<T, cudaGraphExec_t>) {
    return w.executable;
  } else if constexpr (std::is_same_v<T, ncclComm_t>) {
    return w.comm;
  } else if constexpr (std::is_same_v<T, ncclUniqueId>) {
    return w.id;
  } else if constexpr (std::is_same_v<T, cudaIpcEventHandle_t> ||
                       std::is_same_v<T, CUipcEventHandle>) {
    return reinterpret_cast<const T&>(w.ipc);
  } else if constexpr (std::is_same_v<T, dim3>) {
    return dim3(1);
  } else if constexpr (std::is_same_v<T, void*>) {
    return w.memory;
  } else if constexpr (std::is_same_v<T, const void*>) {
    return static_cast<char*>(w.memory) + kBytes / 2;
  } else if constexpr (std::is_same_v<T, CUdeviceptr>) {
    return reinterpret_cast<CUdeviceptr>(w.memory) + (g_next_scratch % 2) * kBytes / 2;
  } else if constexpr (std::is_same_v<T, const char*>) {
    return "cuStreamSynchronize";
  } else if constexpr (std::is_same_v<T, cudaMemcpyKind>) {
    return cudaMemcpyDeviceToDevice;
  } else if constexpr (std::is_same_v<T, cudaPitchedPtr>) {
    return {w.memory, 64, 64, 4};
  } else if constexpr (std::is_same_v<T, cudaExtent>) {
    return {16, 1, 1};
  } else if constexpr (std::is_same_v<T, cudaMemLocation> || std::is_same_v<T, CUmemLocation>) {
    T location = {};
    location.type = static_cast<decltype(location.type)>(1);  // a device
    return location;
  } else if constexpr (std::is_same_v<T, size_t>) {
    return 16;
  } else if constexpr (std::is_same_v<T, const cudaMemcpy3DParms*>) {
    auto* parameters = reinterpret_cast<cudaMemcpy3DParms*>(scratch);
    parameters->srcPtr = parameters->dstPtr = {w.memory, 64, 64, 4};
    parameters->extent = {16, 1, 1};
    parameters->kind = cudaMemcpyDeviceToDevice;
    return parameters;
  } else if constexpr (std::is_same_v<T, const CUDA_MEMCPY2D*> ||
                       std::is_same_v<T, const CUDA_MEMCPY3D*>) {
    auto* copy = reinterpret_cast<std::remove_const_t<std::remove_pointer_t<T>>*>(scratch);
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = reinterpret_cast<CUdeviceptr>(w.memory);
    copy->dstDevice = copy->srcDevice + 128;
    copy->srcPitch = copy->dstPitch = 64;
    copy->WidthInBytes = 16;
    copy->Height = 1;
    if constexpr (std::is_same_v<T, const CUDA_MEMCPY3D*>)
      copy->Depth = copy->srcHeight = copy->dstHeight = 1;
    return copy;
  } else if constexpr (std::is_same_v<T, const CUDA_MEMCPY3D_PEER*>) {
    auto* copy = reinterpret_cast<CUDA_MEMCPY3D_PEER*>(scratch);
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = reinterpret_cast<CUdeviceptr>(w.memory);
    copy->dstDevice = copy->srcDevice + 128;
    copy->srcContext = copy->dstContext = w.context;
    copy->srcPitch = copy->dstPitch = 64;
    copy->WidthInBytes = 16;
    copy->Height = copy->Depth = copy->srcHeight = copy->dstHeight = 1;
    return copy;
  } else if constexpr (std::is_same_v<T, const cudaMemcpy3DPeerParms*>) {
    auto* parameters = reinterpret_cast<cudaMemcpy3DPeerParms*>(scratch);
    parameters->srcPtr = parameters->dstPtr = {w.memory, 64, 64, 4};
    parameters->extent = {16, 1, 1};
    return parameters;
  } else if constexpr (std::is_same_v<T, const cudaLaunchConfig_t*>) {
    auto* config = reinterpret_cast<cudaLaunchConfig_t*>(scratch);
    config->gridDim = config->blockDim = dim3(1);
    config->stream = w.stream;
    return config;
  } else if constexpr (std::is_same_v<T, const CUlaunchConfig*>) {
    auto* config = reinterpret_cast<CUlaunchConfig*>(scratch);
    config->gridDimX = config->gridDimY = config->gridDimZ = 1;
    config->blockDimX = config->blockDimY = config->blockDimZ = 1;
    config->hStream = w.stream;
    return config;
  } else if constexpr (std::is_same_v<T, CUDA_LAUNCH_PARAMS*>) {
    auto* launch = reinterpret_cast<CUDA_LAUNCH_PARAMS*>(scratch);
    launch->function = w.kernel;
    launch->gridDimX = launch->gridDimY = launch->gridDimZ = 1;
    launch->blockDimX = launch->blockDimY = launch->blockDimZ = 1;
    launch->hStream = w.stream;
    return launch;
  } else if constexpr (std::is_same_v<T, ncclConfig_t*>) {
    return nullptr;
  } else if constexpr (std::is_same_v<T, ncclUniqueId*>) {
    return &w.id;
  } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    return FunctionOf<T>::kFunction;
  } else if constexpr (std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>> &&
                       !requires { sizeof(std::remove_pointer_t<T>); }) {
    return nullptr;
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(scratch);
  } else {
    return T{};
  }
}

// What a row needs that its types do not say. The parameters, by position, before the call.
template <ring::CallId kCall, typename... P>
void Prepare(P&... parameters) {
  [[maybe_unused]] World& w = g_world;
  const std::string_view name = ring::kCalls[kCall].name;
  [[maybe_unused]] const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  [[maybe_unused]] int position = 0;
  [[maybe_unused]] const auto each = [&](auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    const int at = position++;
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, unsigned>) {
      // Counts of ranks, grids and blocks.
      if (has("CommInit") && at == 1) value = 1;
      if (has("Scalable") && at == 3) value = 1;
      if (name == "ncclCommInitAll") value = 1;
      if ((has("cuLaunchKernel") || has("cuLaunchCooperativeKernel")) && at >= 1 && at <= 6)
        value = 1;
      if (has("cuLaunchGrid") || has("MultiDevice")) value = at == 1 || at == 2 ? 1 : value;
      if (has("MultiDevice") && at == 2) value = 0;
      if (has("ProcAddress") || has("ByVersion")) value = 13000;
    }
    if constexpr (std::is_same_v<T, size_t>) {
      if (has("Launch") || has("offset")) value = 0;
      if (has("BatchAsync") || has("BatchMem")) value = 0;
      if (has("Symbol") && at == 3) value = 0;
      if (has("2D") || has("Pitch")) value = at == 1 || at == 3 ? 64 : value;
      if (has("Memset2D") && at >= 3) value = at == 3 ? 16 : 1;
      if (has("MemsetD2") && at >= 3) value = at == 3 ? 16 : 1;
      if (has("Memcpy2D") && at >= 4) value = at == 4 ? 16 : 1;
      if (has("UpdateCapture") || has("CaptureToGraph")) value = 0;
    }
    if constexpr (std::is_same_v<T, const void*>) {
      if (has("LaunchKernel") || has("LaunchCooperative")) value = w.kernel;
    }
    if constexpr (std::is_same_v<T, void*>) {
      if (has("FreeHost")) value = w.host;
      if (has("HostUnregister")) value = w.registered;
      if (has("DtoH") || has("HostRegister")) value = w.host;
    }
    if constexpr (std::is_same_v<T, const void*>) {
      if (has("HtoD")) value = w.host;
    }
    if constexpr (std::is_same_v<T, void**>) {
      if (has("Launch")) value = nullptr;
    }
    if constexpr (std::is_same_v<T, cudaStream_t>) {
      if (has("Destroy") || has("CopyAttributes")) value = at == 0 ? w.spare_stream : w.stream;
      if (has("Prefetch") || has("FromPool")) value = w.stream;
    }
    if constexpr (std::is_same_v<T, unsigned>) {
      if (has("cuStreamCreate")) value = CU_STREAM_NON_BLOCKING;
      if (has("BatchMemOp") && at == 1) value = 1;
    }
    if constexpr (std::is_same_v<T, CUstreamBatchMemOpParams*>) {
      value->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      value->writeValue.address = reinterpret_cast<CUdeviceptr>(w.memory);
    }
    if constexpr (std::is_same_v<T, ncclComm_t>) {
      if (name == "ncclCommGrow") value = nullptr;
    }
  };
  (each(parameters), ...);
  if (has("EndCapture") || has("UpdateCapture")) {
    NEED(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeRelaxed));
  }
  if (name == "ncclGroupEnd" || name == "ncclGroupSimulateEnd") NEED(ncclGroupStart());
  if (name == "cuCtxPopCurrent_v2" || name == "cuCtxPopCurrent")
    NEED(cuCtxPushCurrent_v2(w.context));
}

std::string g_ring_path;

// The shim's own view of this process, where there is one.
ring::Header* MapHeader() {
  const char* folder = getenv("GORDIAN_RING_DIR");
  if (folder == nullptr) return nullptr;
  for (const std::string& path : gordian::test::RingPaths(folder)) {
    if (path.find("/" + std::to_string(getpid()) + ".") == std::string::npos) continue;
    g_ring_path = path;
    const int fd = open(path.c_str(), O_RDWR);
    void* base = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return base == MAP_FAILED ? nullptr : static_cast<ring::Header*>(base);
  }
  return nullptr;
}

std::string RecordsOf(uint16_t call, uint64_t after) {
  std::string kinds;
  for (const ring::Record& record : gordian::test::ReadRing(g_ring_path).records) {
    if (record.order <= after || record.call != call) continue;
    kinds += record.kind == ring::RecordKind::kBegin   ? 'B'
             : record.kind == ring::RecordKind::kEnd   ? 'E'
             : record.kind == ring::RecordKind::kPoint ? 'P'
                                                       : 'x';
  }
  return kinds.empty() ? "-" : kinds;
}

// The arguments of a copy, where they decide which memory it reads and writes.
template <typename... P>
constexpr bool kTellsPlaces = ((std::is_same_v<P, cudaMemcpyKind> ||
                                std::is_same_v<P, const cudaMemcpy3DParms*> ||
                                std::is_same_v<P, const CUDA_MEMCPY2D*> ||
                                std::is_same_v<P, const CUDA_MEMCPY3D*>) ||
                               ...);
template <typename... P>
constexpr bool kTellsPlaces<CUdeviceptr, CUdeviceptr, P...> = true;

template <typename... Parameters>
const char* StyleOf(ring::CallId call) {
  const ring::CallInfo& row = ring::kCalls[call];
  if (row.wait == ring::WaitKind::kCopy && kTellsPlaces<Parameters...>) return "queued";
  return row.style == ring::CallStyle::kBlocks  ? "blocks"
         : row.style == ring::CallStyle::kPoint ? "point"
                                                : "silent";
}

template <ring::CallId kCall, typename Result, typename... Parameters>
void CallRow(const char* name, Result (*)(Parameters...)) {
  const char* const style = StyleOf<Parameters...>(kCall);
  MakeWorld(ring::LibraryName(ring::kCalls[kCall].library));
  const auto function = reinterpret_cast<Result (*)(Parameters...)>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) {
    std::printf("%s %s absent 0 0 -\n", name, style);
    return;
  }
  ring::Header* header = MapHeader();
  std::tuple<Parameters...> arguments{Argument<Parameters>()...};
  std::apply([](auto&... each) { Prepare<kCall>(each...); }, arguments);
  uint64_t order = 0;
  if (header != nullptr) {
    order = __atomic_load_n(&header->order, __ATOMIC_SEQ_CST);
    header->rows_used[kCall / 64] &= ~(uint64_t{1} << kCall % 64);
  }
  std::string result = "void";
  errno = kErrnoBefore;
  int error = 0;
  if constexpr (std::is_void_v<Result>) {
    std::apply(function, arguments);
    error = errno;
  } else {
    const Result got = std::apply(function, arguments);
    error = errno;
    if constexpr (std::is_same_v<Result, const char*>) {
      result = "\"" + std::string(got) + "\"";
      for (char& c : result) c = c == ' ' || c == '\n' ? '_' : c;
    } else {
      result = std::to_string(static_cast<int>(got));
    }
  }
  const bool used = header != nullptr && (header->rows_used[kCall / 64] >> kCall % 64 & 1) != 0;
  std::printf("%s %s %s %d %d %s\n", name, style, result.c_str(), error, used,
              header != nullptr ? RecordsOf(kCall, order).c_str() : "-");
}

// Each in a child of a process that has not touched a library: CUDA does not survive a fork.
template <typename Row>
void InChild(const char* name, const Row& row) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    row();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("%s - signal_%d 0 0 -\n", name, WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) std::exit(WEXITSTATUS(status));
}

}  // namespace

// Arguments: only these rows; none: all.
int main(int argc, char** argv) {
  const auto wanted = [&](const char* name) {
    for (int i = 1; i < argc; ++i) {
      if (strcmp(argv[i], name) == 0) return true;
    }
    return argc == 1;
  };
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments)     \
  if (wanted(#name)) {                                                                \
    InChild(#name, [] {                                                               \
      CallRow<ring::kCall_##name>(#name, static_cast<result(*) parameters>(nullptr)); \
    });                                                                               \
  }
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
  return 0;
}
