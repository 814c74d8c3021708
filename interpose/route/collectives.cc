#include "interpose/route/collectives.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/loader.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/progress/driver_api.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/route/recovery.h"
#include "interpose/route/routed_comm.h"
#include "interpose/torch/torch_groups.h"

GORDIAN_BIND_FIRST_VERSION(dlopen);
GORDIAN_BIND_FIRST_VERSION(dlerror);

namespace gordian::interpose {

constinit std::atomic<uint32_t> g_collectives = 0;
constinit RuntimeFunctions g_runtime = {};
constinit grtCudaFunctions_t g_cuda = {};
constinit RoutedComm g_comms[kMostComms] = {};

namespace {

constexpr uint64_t kAgreeNs = 5'000'000'000;
// Children of a communicator's id that are no communicators: the second vote, and what NCCL
// shrinks.
constexpr uint32_t kReadyNumber = UINT32_MAX, kShrunkNumbers = 1u << 31;
constexpr uint32_t kMostGroupInits = 64;
constexpr uint32_t kMostGroupWindows = 64;
// At once, of all communicators; those beyond are NCCL's alone.
constexpr uint32_t kMostRegistered = 4096;

constinit std::atomic<uint32_t> g_looking = 0;
constinit grtFrontCounters_t g_no_counters = {};
constinit grtFrontCounters_t* g_counters = &g_no_counters;

// What is registered with both.
struct Registered {
  std::atomic<uint64_t> handle;  // NCCL's; 0: free, kTaken: not filled in
  const RoutedComm* comm;
  grtReg_t reg;
};
constexpr uint64_t kTaken = 1;
constinit Registered g_registered[kMostRegistered] = {};

// Communicators that a group is to make: their handles are valid at its end.
struct GroupInit {
  ncclComm_t* made;
  grtUniqueId id;
  bool wanted, named;
};
struct GroupWindow {
  ncclComm_t comm;
  void* memory;
  size_t bytes;
  const ncclWindow_t* window;  // valid at the group's end
};
struct GroupState {
  uint32_t depth;
  uint32_t inits, windows;
  GroupInit init[kMostGroupInits];
  GroupWindow window[kMostGroupWindows];
};
constinit thread_local GroupState t_group __attribute__((tls_model("initial-exec"))) = {};

// An operation's name as the runtime keeps it, and back.
constexpr uint32_t kKindBits = 3;

ring::EarlyOperation NamedBy(const grtFrontName_t& name) {
  return {name.word[1] >> kKindBits, static_cast<uint32_t>(name.word[0] >> 32),
          static_cast<int32_t>(static_cast<uint32_t>(name.word[0])),
          static_cast<ring::NumberKind>(name.word[1] & ((1u << kKindBits) - 1)), 0};
}

void Count(uint64_t& counter) { __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED); }

RoutedComm* Find(const void* comm) {
  const auto handle = reinterpret_cast<uint64_t>(comm);
  if (handle == 0) return nullptr;
  for (RoutedComm& routed : g_comms) {
    if (routed.handle.load(std::memory_order_acquire) == handle) return &routed;
  }
  return nullptr;
}

RoutedComm* Free() {
  for (RoutedComm& routed : g_comms) {
    uint64_t free = 0;
    if (IsBeingRecovered(routed)) continue;  // aborted in the middle: its units are still looked at
    if (routed.handle.compare_exchange_strong(free, 1, std::memory_order_acquire)) return &routed;
  }
  return nullptr;
}

bool OpenRuntime(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    Say("collectives stay with NCCL", why != nullptr ? why : path);
    return false;
  }
#define GORDIAN_LOOK_UP(name)                                                                  \
  g_runtime.name = reinterpret_cast<decltype(g_runtime.name)>(Loader().dlsym(library, #name)); \
  if (g_runtime.name == nullptr) return false;
  GORDIAN_RUNTIME_FUNCTIONS(GORDIAN_LOOK_UP)
#undef GORDIAN_LOOK_UP
  g_cuda.size = sizeof g_cuda;
  const auto find = [](auto* function, Library from, const char* name) {
    *function =
        reinterpret_cast<std::remove_reference_t<decltype(*function)>>(FindInLibrary(from, name));
  };
  find(&g_cuda.launch_host_func, Library::kRuntime, "cudaLaunchHostFunc");
  find(&g_cuda.host_alloc, Library::kRuntime, "cudaHostAlloc");
  find(&g_cuda.stream_is_capturing, Library::kRuntime, "cudaStreamIsCapturing");
  find(&g_cuda.get_device, Library::kRuntime, "cudaGetDevice");
  find(&g_cuda.set_device, Library::kRuntime, "cudaSetDevice");
  find(&g_cuda.stream_get_flags, Library::kRuntime, "cudaStreamGetFlags");
  find(&g_cuda.event_create, Library::kRuntime, "cudaEventCreateWithFlags");
  find(&g_cuda.event_record, Library::kRuntime, "cudaEventRecord");
  find(&g_cuda.event_query, Library::kRuntime, "cudaEventQuery");
  find(&g_cuda.exchange_capture_mode, Library::kRuntime, "cudaThreadExchangeStreamCaptureMode");
  find(&g_cuda.stream_wait_value64, Library::kDriver, "cuStreamWaitValue64_v2");
  return g_runtime.grtUseCudaStreams(&g_cuda) == grtSuccess;
}

// What `gordian run` adds up at the end: a file of this process's own.
void MapCounters() {
  const char* session = getenv("GORDIAN_SESSION");
  if (session == nullptr || *session == '\0') return;
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/" GRT_COUNTERS_FILE "%d", session,
                              static_cast<int>(getpid()));
  if (length <= 0 || length >= static_cast<int>(sizeof path)) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (fd < 0) return;
  // Another file under this name, which is cut below, would lose its contents.
  struct stat info;
  const bool ours = syscall(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_nlink == 1 && info.st_uid == geteuid();
  if (ours && ftruncate(fd, sizeof(grtFrontCounters_t)) == 0) {
    void* at = mmap(nullptr, sizeof(grtFrontCounters_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) g_counters = static_cast<grtFrontCounters_t*>(at);
  }
  close(fd);
}

// A member that this thread speaks for.
struct Voter {
  ncclComm_t comm;
  int rank;
  RoutedComm* routed;
  bool named;
};

// The runtime's communicator. Null: not here.
grtComm_t MakeOwn(const Voter& voter, int ranks, const grtUniqueId& id) {
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.grace_ms =
      UINT32_MAX;  // as NCCL's kernel: what was not written is not read before the job has aborted
  const auto device = RealNccl<ncclResult_t (*)(ncclComm_t, int*)>(ring::kCall_ncclCommCuDevice);
  if (device == nullptr || device(voter.comm, &config.device) != ncclSuccess) return nullptr;
  grtComm_t own = nullptr;
  return g_runtime.grtCommInitRankConfig(&own, ranks, id, voter.rank, &config) == grtSuccess
             ? own
             : nullptr;
}

// Whether all of them have all that a first operation would wait for.
bool Join(const Voter* voters, uint32_t count, int ranks, const grtUniqueId& id) {
  bool well = true;
  // None waits for another before all of them are there.
  for (uint32_t i = 0; i < count && well; ++i) {
    voters[i].routed->comm = MakeOwn(voters[i], ranks, id);
    well = voters[i].routed->comm != nullptr;
  }
  for (uint32_t i = 0; i < count && well; ++i) {
    well = g_runtime.grtCommConnect(voters[i].routed->comm, kAgreeNs) == grtSuccess;
  }
  return well;
}

void ArmSpare(RoutedComm& routed, int ranks, const Voter& voter) {
  int device = 0;
  const auto ask = RealNccl<ncclResult_t (*)(ncclComm_t, int*)>(ring::kCall_ncclCommCuDevice);
  if (ask != nullptr) ask(voter.comm, &device);
  ArmComm(routed, ranks, voter.rank, device);
}

// Every member comes here with the same id, and with its own wish. They vote twice: whether to try,
// and whether all have what they need. A thread that has made several members votes for all of them
// at once.
void Agree(Voter* voters, uint32_t count, int ranks, const grtUniqueId& id, bool wanted) {
  const int saved = errno;
  if (WantsRecovery() && !Arm()) wanted = false;
  for (uint32_t i = 0; i < count; ++i) {
    RoutedComm* routed = voters[i].routed = Free();
    if (routed == nullptr) {
      wanted = false;
      continue;
    }
    routed->comm = nullptr;
    routed->agreed = false;
    routed->named = voters[i].named;
    routed->id = id;
    routed->children.store(0, std::memory_order_relaxed);
    routed->shrunk.store(0, std::memory_order_relaxed);
  }
  int agreed = 0;
  g_runtime.grtAgree(id, ranks, static_cast<int>(count), wanted ? 1 : 0, kAgreeNs, &agreed);
  if (agreed != 0) {
    const bool well = Join(voters, count, ranks, id);
    if (!well) Say("collectives stay with NCCL", "a rank cannot join the preemptive runtime");
    grtUniqueId ready;
    g_runtime.grtChildId(id, kReadyNumber, 0, &ready);
    agreed = 0;
    g_runtime.grtAgree(ready, ranks, static_cast<int>(count), well ? 1 : 0, kAgreeNs, &agreed);
  }
  for (uint32_t i = 0; i < count; ++i) {
    RoutedComm* routed = voters[i].routed;
    if (routed != nullptr) {
      if (agreed == 0 && routed->comm != nullptr) {
        g_runtime.grtCommAbort(routed->comm);
        routed->comm = nullptr;
      }
      routed->agreed = agreed != 0;
      if (agreed != 0 && IsArmed()) ArmSpare(*routed, ranks, voters[i]);
      routed->handle.store(reinterpret_cast<uint64_t>(voters[i].comm), std::memory_order_release);
    }
    Count(agreed != 0 ? g_counters->comms : g_counters->comms_with_nccl);
  }
  errno = saved;
}

bool RanksOf(ncclComm_t comm, int* ranks, int* rank) {
  const auto count = RealNccl<ncclResult_t (*)(ncclComm_t, int*)>(ring::kCall_ncclCommCount);
  const auto own = RealNccl<ncclResult_t (*)(ncclComm_t, int*)>(ring::kCall_ncclCommUserRank);
  return count != nullptr && own != nullptr && count(comm, ranks) == ncclSuccess &&
         own(comm, rank) == ncclSuccess;
}

// `named`: IsNamed. Without that the member votes no, and so all members stay with NCCL, also where
// some of them know a name.
void Made(ncclComm_t* made, const grtUniqueId& id, bool wanted, bool named) {
  if (t_group.depth > 0) {
    if (t_group.inits < kMostGroupInits) t_group.init[t_group.inits++] = {made, id, wanted, named};
    return;
  }
  int ranks = 0;
  Voter voter = {};
  if (made == nullptr || *made == nullptr || !RanksOf(*made, &ranks, &voter.rank)) return;
  voter.comm = *made;
  voter.named = named;
  Agree(&voter, 1, ranks, id, wanted && named);
}

// All that the group has made with the id of its `first` communicator, which are members of one: on
// several devices.
void MadeTogether(GroupInit* inits, uint32_t first, uint32_t count) {
  Voter voters[kMostGroupInits] = {};
  uint32_t members = 0;
  int ranks = 0;
  bool wanted = true;
  const grtUniqueId id = inits[first].id;
  for (uint32_t i = first; i < count; ++i) {
    GroupInit& init = inits[i];
    if (init.made == nullptr || memcmp(&init.id, &id, sizeof id) != 0) continue;
    if (*init.made != nullptr && RanksOf(*init.made, &ranks, &voters[members].rank)) {
      voters[members].named = init.named;
      voters[members++].comm = *init.made;
      wanted = wanted && init.wanted && init.named;
    }
    init.made = nullptr;
  }
  if (members != 0) Agree(voters, members, ranks, id, wanted);
}

// GORDIAN_COLLECTIVES_NAMES, as LookForCollectives has found it; null: all communicators are asked
// for.
constinit const char* g_names = nullptr;

// Verdicts have the first bytes of a longer name.
constexpr size_t kVerdictName = sizeof(ring::TextPayload::text) - 1;

bool IsCalled(const char* name, size_t bytes, const char* asked, size_t asked_bytes) {
  return (bytes == asked_bytes || (asked_bytes == kVerdictName && bytes > asked_bytes)) &&
         memcmp(name, asked, asked_bytes) == 0;
}

// Whether the communicator that this thread has just made is asked for: by the name that the program
// gave to NCCL, or that of the process group of PyTorch in whose call the thread is.
bool IsNamed(const ncclConfig_t* config) {
  if (g_names == nullptr) return true;
  char torch[64];
  const size_t torch_bytes = TorchNameOfThread(torch, sizeof torch);
  const char* given = NameGiven(config);
  const size_t given_bytes = given == nullptr ? 0 : strlen(given);
  bool named = false;
  const char* asked = g_names;
  for (uint32_t i = 0; i < 64 && *asked != '\0'; ++i) {
    const size_t bytes = strcspn(asked, ",");
    if ((given_bytes != 0 && IsCalled(given, given_bytes, asked, bytes)) ||
        (torch_bytes != 0 && IsCalled(torch, torch_bytes, asked, bytes))) {
      named = true;
      __atomic_fetch_or(&g_counters->names_found, uint64_t{1} << i, __ATOMIC_RELAXED);
    }
    asked += bytes;
    if (*asked == ',') ++asked;
  }
  return named;
}

bool Blocks(const ncclConfig_t* config) { return config == nullptr || config->blocking != 0; }

// The runtime's communicator takes no calls any more; what is registered with it ends with it.
grtComm_t TakeOwn(RoutedComm* routed) {
  const grtComm_t own = routed->comm;
  routed->comm = nullptr;
  if (own == nullptr) return nullptr;
  for (Registered& r : g_registered) {
    if (r.handle.load(std::memory_order_acquire) > kTaken && r.comm == routed)
      r.handle.store(0, std::memory_order_release);
  }
  return own;
}

constexpr uintptr_t kLegacyStream = 1,
                    kPerThreadStream = 2;  // cudaStreamLegacy, cudaStreamPerThread

bool IsLegacy(const void* stream) { return reinterpret_cast<uintptr_t>(stream) <= kLegacyStream; }

}  // namespace

grtFrontName_t NameOf(const ring::EarlyOperation& named) {
  return {{uint64_t{named.comm} << 32 | static_cast<uint32_t>(named.peer),
           named.sequence << kKindBits | static_cast<uint32_t>(named.kind)}};
}

void Say(const char* what, const char* why) {
  char line[512];
  const int length = snprintf(line, sizeof line, "gordian: %s: %s\n", what, why);
  if (length <= 0) return;
  const size_t bytes =
      length < static_cast<int>(sizeof line) ? static_cast<size_t>(length) : sizeof line - 1;
  if (write(STDERR_FILENO, line, bytes) < 0) return;
}

ncclResult_t ToNccl(grtResult_t result) {
  if (result <= grtInProgress) return static_cast<ncclResult_t>(result);
  if (result == grtMismatch || result == grtOutOfPorts) return ncclInvalidUsage;
  if (result == grtPeerDead) return ncclRemoteError;
  return ncclInternalError;
}

grtKind_t KindOf(ring::CallId call) {
  using ring::Meaning;
  switch (ring::kCalls[call].meaning) {
    case Meaning::kAllReduce:
      return grtKindAllReduce;
    case Meaning::kAllGather:
      return grtKindAllGather;
    case Meaning::kReduceScatter:
      return grtKindReduceScatter;
    case Meaning::kBroadcast:
      return grtKindBroadcast;
    case Meaning::kReduce:
      return grtKindReduce;
    case Meaning::kAllToAll:
      return grtKindAllToAll;
    case Meaning::kGather:
      return grtKindGather;
    case Meaning::kScatter:
      return grtKindScatter;
    case Meaning::kSend:
      return grtKindSend;
    default:
      return grtKindRecv;
  }
}

bool LookForCollectives() {
  const char* path = getenv("GORDIAN_COLLECTIVES_LIBRARY");
  if (path == nullptr || *path == '\0') {
    g_collectives.store(1, std::memory_order_release);
    return false;
  }
  // Not before CUDA is there. One thread opens; the others see NCCL's route until it has: they
  // cannot have a communicator yet.
  if (FindInLibrary(Library::kRuntime, "cudaLaunchHostFunc") == nullptr) return false;
  if (g_looking.exchange(1) != 0) return g_collectives.load(std::memory_order_acquire) == 2;
  const char* names = getenv("GORDIAN_COLLECTIVES_NAMES");
  if (names != nullptr && *names != '\0') g_names = names;
  LookForRecovery();
  MapCounters();
  const bool on = OpenRuntime(path);
  g_collectives.store(on ? 2 : 1, std::memory_order_release);
  return on;
}

bool RouteOperation(ring::CallId call, const OperationArguments& a, OperationRoute* route,
                    ncclResult_t* result) {
  RoutedComm* routed = Find(a.comm);
  if (routed == nullptr || routed->comm == nullptr) {
    Count(routed != nullptr && !routed->named ? g_counters->not_named : g_counters->not_agreed);
    NoteForeignWork(a.stream);
    return false;
  }
  int capturing = 0;
  const bool own_operator = a.reduce_op >= static_cast<int>(ncclNumOps);
  const bool in_graph =
      g_cuda.stream_is_capturing(static_cast<cudaStream_t>(a.stream), &capturing) == 0 &&
      capturing != 0;
  if (own_operator || (in_graph && g_runtime.grtCanCapture() == 0)) {
    Count(own_operator ? g_counters->own_operator : g_counters->in_graph);
    NoteForeignWork(a.stream);
    return false;
  }
  if (in_graph) {
    // A captured call enqueues nothing now; the shim reports the graph's launches as other work.
  } else if (IsLegacy(a.stream)) {
    g_runtime.grtStreamForeignAll();
  } else if (reinterpret_cast<uintptr_t>(a.stream) != kPerThreadStream) {
    g_runtime.grtStreamExclusive(static_cast<cudaStream_t>(a.stream), 1);
  }
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.kind = KindOf(call);
  d.in = a.send;
  d.out = const_cast<void*>(a.receive);
  d.count = a.count;
  d.type = static_cast<grtDataType_t>(a.datatype);
  d.op = a.reduce_op < 0 ? grtSum : static_cast<grtRedOp_t>(a.reduce_op);
  d.root_or_peer = a.root_or_peer < 0 ? 0 : a.root_or_peer;
  d.comm = routed->comm;
  if (route != nullptr) {
    const grtFrontName_t name = NameOf(route->name);
    d.reserved[0] = name.word[0];
    d.reserved[1] = name.word[1];
    route->elsewhere = true;
  }
  *result = ToNccl(g_runtime.grtSubmit(&d, static_cast<cudaStream_t>(a.stream), nullptr));
  Count(g_counters->operations);
  return true;
}

void TellEarly(ring::Header& header) {
  if (g_collectives.load(std::memory_order_acquire) != 2) return;
  // NCCL has all operations, which begin in their order.
  if (WantsRecovery() && g_recovered.load(std::memory_order_acquire) == 0) return;
  constexpr int kTries = 20;
  grtFrontName_t names[ring::kMaxEarly];
  uint32_t count = 0;
  grtResult_t result = grtInProgress;
  for (int i = 0; i < kTries && result == grtInProgress; ++i) {
    if (i != 0) sched_yield();
    result = g_runtime.grtFrontEarly(names, ring::kMaxEarly, &count);
  }
  if (result == grtNotSupported) {  // kernels decide
    Put(header.early_more, ring::kEarlyBehindOperations);
    return;
  }
  const uint32_t told = result != grtSuccess      ? 0
                        : count < ring::kMaxEarly ? count
                                                  : ring::kMaxEarly;
  for (uint32_t i = 0; i < told; ++i) {
    const ring::EarlyOperation named = NamedBy(names[i]);
    Put(header.early[i].sequence, named.sequence);
    Put(header.early[i].comm, named.comm);
    Put(header.early[i].peer, named.peer);
    Put(header.early[i].kind, named.kind);
  }
  Put(header.early_used, told);
  Put(header.early_more, result != grtSuccess || count > told ? ring::kEarlyAny : 0);
}

bool BeginArmedOperation(ring::CallId call, const OperationArguments& a, OperationRoute* route,
                         ArmedCall* armed, ncclResult_t* result) {
  *armed = {nullptr, false, {}};
  RoutedComm* routed = Find(a.comm);
  if (routed != nullptr && routed->comm != nullptr && routed->units != nullptr) {
    const ArmedBy by = BeginArmed(*routed, call, a, route, armed);
    if (by == ArmedBy::kRuntime) return RouteOperation(call, a, route, result);
    if (by == ArmedBy::kRecovery) {
      NoteForeignWork(a.stream);
      *result = ncclSuccess;
      return true;
    }
  }
  NoteForeignWork(a.stream);
  return false;
}

bool IsRecovered(ncclComm_t comm) {
  const RoutedComm* const routed = Find(comm);
  if (routed == nullptr) return false;
  const Carrier carrier = routed->carrier.load();
  return carrier == Carrier::kRecovering || carrier == Carrier::kRuntime;
}

void RouteGroupStart() {
  ++t_group.depth;
  if (IsArmed()) NoteGroupStart();
  g_runtime.grtGroupStart();
}

ncclResult_t RouteGroupEnd() {
  if (IsArmed()) MakeShadowsOfGroup();
  return ToNccl(g_runtime.grtGroupEnd());
}

void RouteGroupEnded(ncclResult_t real) {
  if (IsArmed()) EndArmedGroup(real);
  if (t_group.depth == 0 || --t_group.depth > 0) return;
  const uint32_t inits = t_group.inits, windows = t_group.windows;
  t_group.inits = t_group.windows = 0;
  for (uint32_t i = 0; real == ncclSuccess && i < windows; ++i) {
    const GroupWindow& w = t_group.window[i];
    if (w.window != nullptr) RouteRegister(w.comm, w.memory, w.bytes, *w.window);
  }
  for (uint32_t i = 0; real == ncclSuccess && i < inits; ++i) {
    if (t_group.init[i].made != nullptr) MadeTogether(t_group.init, i, inits);
  }
}

void RouteInit(ncclComm_t* comm, int, const ncclUniqueId& id, int, const ncclConfig_t* config) {
  static_assert(sizeof(grtUniqueId) == sizeof(ncclUniqueId));
  grtUniqueId own;
  memcpy(&own, &id, sizeof own);
  Made(comm, own, Blocks(config), IsNamed(config));
}

// No other process takes part.
void RouteInitAll(const ncclComm_t* comms, int count, const int*) {
  Voter voters[kMostGroupInits] = {};
  grtUniqueId id;
  if (count < 1 || count > static_cast<int>(kMostGroupInits) ||
      g_runtime.grtGetUniqueId(&id) != grtSuccess) {
    Count(g_counters->comms_with_nccl);
    return;
  }
  for (int i = 0; i < count; ++i) {
    voters[i].comm = comms[i];
    voters[i].rank = i;
    voters[i].named = IsNamed(nullptr);
  }
  Agree(voters, static_cast<uint32_t>(count), count, id, IsNamed(nullptr));
}

void RouteSplit(ncclComm_t parent, int color, ncclComm_t* made, const ncclConfig_t* config) {
  RoutedComm* routed = Find(parent);
  if (routed == nullptr) return;
  const uint32_t number = routed->children.fetch_add(1, std::memory_order_relaxed) + 1;
  if (color < 0) return;  // NCCL_SPLIT_NOCOLOR: no member
  grtUniqueId id;
  g_runtime.grtChildId(routed->id, number, color, &id);
  // What could not be for the parent cannot be for its part; a parent that was not asked for says
  // nothing.
  Made(made, id, (routed->comm != nullptr || !routed->named) && Blocks(config), IsNamed(config));
}

void RouteShrink(ncclComm_t parent, ncclComm_t* made, const ncclConfig_t* config) {
  RoutedComm* routed = Find(parent);
  if (routed == nullptr) return;
  // Whom it leaves out does not call: a row of numbers of its own.
  const uint32_t number = routed->shrunk.fetch_add(1, std::memory_order_relaxed);
  grtUniqueId id;
  g_runtime.grtChildId(routed->id, kShrunkNumbers + number, 0, &id);
  // It goes on in the parent's place, whatever it is called.
  Made(made, id, routed->agreed && Blocks(config), routed->named);
}

void RouteFinalize(ncclComm_t comm) {
  RoutedComm* routed = Find(comm);
  if (routed != nullptr && routed->comm != nullptr) g_runtime.grtFrontFinish(routed->comm);
}

void RouteDestroy(ncclComm_t comm) {
  RoutedComm* routed = Find(comm);
  if (routed == nullptr) return;
  if (IsArmed()) LeaveRecovery(*routed, /*aborts=*/false);
  const grtComm_t own = TakeOwn(routed);
  routed->carrier.store(Carrier::kNccl);
  routed->handle.store(0, std::memory_order_release);
  if (own == nullptr) return;
  grtStats_t stats = GRT_STATS_INITIALIZER;
  if (g_runtime.grtGetStats(own, &stats) == grtSuccess) {
    __atomic_fetch_add(&g_counters->helped, stats.helped, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g_counters->direct, stats.direct, __ATOMIC_RELAXED);
  }
  // As NCCL's, it waits for the operations that were called.
  g_runtime.grtCommDestroy(own, UINT64_MAX);
}

void RouteAbort(ncclComm_t comm) {
  RouteRevoke(comm);
  RoutedComm* const routed = Find(comm);
  if (routed == nullptr) return;
  if (IsArmed()) LeaveRecovery(*routed, /*aborts=*/true);
  if (!IsBeingRecovered(*routed)) routed->carrier.store(Carrier::kNccl);
  routed->handle.store(0, std::memory_order_release);
}

void RouteRevoke(ncclComm_t comm) {
  RoutedComm* routed = Find(comm);
  if (routed == nullptr) return;
  if (IsArmed()) EndByProgram(*routed);
  const grtComm_t own = TakeOwn(routed);
  if (own != nullptr) g_runtime.grtCommAbort(own);
}

void RouteRegister(ncclComm_t comm, void* memory, size_t bytes, const void* handle) {
  const int saved = errno;
  RoutedComm* routed = Find(comm);
  // Without a handle NCCL has nothing registered, and the program nothing to name it by.
  const auto given = reinterpret_cast<uint64_t>(handle);
  if (routed == nullptr || routed->comm == nullptr || given <= kTaken) return;
  if (IsArmed()) return NoteRegistered(*routed);
  grtReg_t reg = nullptr;
  if (g_runtime.grtCommRegister(routed->comm, memory, bytes, &reg) == grtSuccess) {
    Registered* place = nullptr;
    for (Registered& r : g_registered) {
      uint64_t free = 0;
      if (!r.handle.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) continue;
      place = &r;
      break;
    }
    if (place != nullptr) {
      place->comm = routed;
      place->reg = reg;
      place->handle.store(given, std::memory_order_release);
      Count(g_counters->registered);
    } else {
      g_runtime.grtCommDeregister(routed->comm, reg);
    }
  }
  errno = saved;
}

void RouteWindow(ncclComm_t comm, void* memory, size_t bytes, const ncclWindow_t* window) {
  if (window == nullptr) return;
  if (t_group.depth == 0) {
    RouteRegister(comm, memory, bytes, *window);
  } else if (t_group.windows < kMostGroupWindows) {
    t_group.window[t_group.windows++] = {comm, memory, bytes, window};
  }
}

void RouteDeregister(ncclComm_t comm, const void* handle) {
  const int saved = errno;
  const RoutedComm* routed = Find(comm);
  const auto given = reinterpret_cast<uint64_t>(handle);
  if (routed == nullptr || routed->comm == nullptr || given <= kTaken) return;
  for (Registered& r : g_registered) {
    uint64_t expected = given;
    if (r.handle.load(std::memory_order_acquire) != given || r.comm != routed ||
        !r.handle.compare_exchange_strong(expected, kTaken, std::memory_order_acquire)) {
      continue;
    }
    const grtReg_t reg = r.reg;
    r.handle.store(0, std::memory_order_release);
    g_runtime.grtCommDeregister(routed->comm, reg);
    break;
  }
  errno = saved;
}

void RouteAsyncError(ncclComm_t comm, ncclResult_t* error) {
  RoutedComm* routed = Find(comm);
  if (routed == nullptr || routed->comm == nullptr || error == nullptr || *error != ncclSuccess)
    return;
  grtResult_t own = grtSuccess;
  if (g_runtime.grtCommGetAsyncError(routed->comm, &own) == grtSuccess) *error = ToNccl(own);
}

void NoteForeignWork(void* stream) {
  if (IsLegacy(stream)) {
    g_runtime.grtStreamForeignAll();
  } else {
    g_runtime.grtStreamForeign(static_cast<cudaStream_t>(stream));
  }
}

void NoteStreamGone(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= kPerThreadStream) return;  // none that could go
  // The runtime asks the stream: that must not end another thread's capture.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool exchanged = DriverKnown() && g_driver.exchange_capture_mode != nullptr &&
                         g_driver.exchange_capture_mode(&mode) == CUDA_SUCCESS;
  g_runtime.grtStreamGone(static_cast<cudaStream_t>(stream));
  if (exchanged) g_driver.exchange_capture_mode(&mode);
}

void NoteRecording(const void* event, void* stream) {
  if (IsLegacy(stream)) g_runtime.grtStreamForeignAll();
  g_runtime.grtFrontRecording(event, static_cast<cudaStream_t>(stream));
}

void NoteRecorded(const void* event, void* stream, bool well) {
  g_runtime.grtFrontRecorded(event, static_cast<cudaStream_t>(stream), well ? 1 : 0);
}

void NoteAwaiting(const void* event, void* stream) {
  const int saved = errno;
  if (IsLegacy(stream)) g_runtime.grtStreamForeignAll();
  g_runtime.grtFrontAwaiting(event, static_cast<cudaStream_t>(stream));
  errno = saved;
}

void NoteAwaited(const void* event, void* stream, bool well) {
  g_runtime.grtFrontAwaited(event, static_cast<cudaStream_t>(stream), well ? 1 : 0);
}

void NoteEventShared(const void* event) { g_runtime.grtFrontEventShared(event); }

void NoteUnseenRecords(bool begins) { g_runtime.grtFrontUnseenRecords(begins ? 1 : 0); }

void NoteEventGone(const void* event) { g_runtime.grtEventForgotten(event); }

}  // namespace gordian::interpose
