#include "interpose/sources/cupti_source.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/loader.h"
#include "interpose/entry/observe.h"
#include "interpose/entry/reentrancy_guard.h"
#include "interpose/sources/cupti_abi.h"
#include "interpose/sources/nccl_profiler.h"

GORDIAN_BIND_FIRST_VERSION(dlopen);
GORDIAN_BIND_FIRST_VERSION(dlerror);

namespace gordian::interpose::cupti {
namespace {

constinit std::atomic<uint32_t> g_state = ring::kCuptiNotAsked;

// The prototype of a row.
template <CallId kCall>
struct Prototype;
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  template <>                                                                     \
  struct Prototype<ring::kCall_##name> {                                          \
    using Type = result(*) parameters;                                            \
  };
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK

template <typename Member>
const Member& MemberAt(const void* parameters, size_t offset) {
  return *reinterpret_cast<const Member*>(static_cast<const char*>(parameters) + offset);
}

// Calls use(arguments...) with the call's arguments.
template <typename Result, typename... Arguments, typename Use, size_t... kNumbers>
void Unpack(Result (*)(Arguments...), std::index_sequence<kNumbers...>,
            [[maybe_unused]] const void* parameters, const Use& use) {
  use(MemberAt<Arguments>(parameters, OffsetOf<Arguments...>(kNumbers))...);
}
template <typename Result, typename... Arguments, typename Use>
void WithArguments(Result (*row)(Arguments...), const void* parameters, const Use& use) {
  Unpack(row, std::index_sequence_for<Arguments...>(), parameters, use);
}

// Stands for the real call, which the program makes, with its result.
struct Given {
  CUresult result;
  uint64_t capture;  // the stream's capture when the call began
  CUresult operator()() const { return result; }
};

// What the beginning of a call passes on to its end.
struct Begun {
  uint32_t function;  // CUPTI's number; 0: none
  uint32_t what;
  StreamState* stream;
  uint64_t capture;
};

// True for rows that write before the real call: once that has freed the handle, another thread may
// get it.
constexpr bool IsToldAtItsBeginning(CallId call) {
  const ring::CallInfo& row = ring::kCalls[call];
  return row.Has(ring::kDestroysEvent) || row.Has(ring::kDestroysContext) ||
         row.graph == ring::GraphCall::kDestroy || row.graph == ring::GraphCall::kExecDestroy;
}
constexpr bool EndsCapture(CallId call) {
  return ring::kCalls[call].graph == ring::GraphCall::kEndCapture;
}

template <CallId kCall>
void Enter(ThreadContext& thread, const void* parameters, Begun* begun) {
  using Observed = Call<kCall, Given>;
  const Given given = {CUDA_SUCCESS, 0};
  WithArguments(typename Prototype<kCall>::Type(nullptr), parameters,
                [&](const auto&... arguments) {
                  if constexpr (Observed::kTellsBegin) {
                    const auto note = Observed{thread, 0, given}.Begin(arguments...);
                    begun->what = note.what;
                    begun->stream = note.stream;
                  } else if constexpr (IsToldAtItsBeginning(kCall)) {
                    Observed{thread, 0, given}(arguments...);
                  } else if constexpr (EndsCapture(kCall)) {
                    begun->capture = Observed::CaptureOfArgument(arguments...);
                  }
                });
}

template <CallId kCall>
void Leave(ThreadContext& thread, const void* parameters, CUresult result, const Begun& begun) {
  using Observed = Call<kCall, Given>;
  const Given given = {result, begun.capture};
  if constexpr (Observed::kTellsBegin) {
    const typename Observed::WaitNote note = {
        static_cast<typename Observed::WaitNote::What>(begun.what), begun.stream};
    Observed{thread, 0, given}.End(note, result);
  } else if constexpr (!IsToldAtItsBeginning(kCall)) {
    WithArguments(typename Prototype<kCall>::Type(nullptr), parameters,
                  [&](const auto&... arguments) {
                    Observed{thread, 0, given}(arguments...);
                  });
  }
}

struct Row {
  void (*enter)(ThreadContext&, const void*, Begun*);
  void (*leave)(ThreadContext&, const void*, CUresult, const Begun&);
};
constexpr uint32_t kFunctions = 1024;
struct Table {
  Row rows[kFunctions];
};
constexpr Table MakeTable() {
  Table table = {};
#define GORDIAN_CUPTI(name, number) \
  table.rows[number] = {Enter<ring::kCall_##name>, Leave<ring::kCall_##name>};
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI
  return table;
}
constexpr Table kTable = MakeTable();

// A thread's state for CUPTI's callbacks.
struct Told {
  uint32_t looks;  // at its name
  bool foreign;    // NCCL's own: it names its threads, early in their lives (NCCL_SET_THREAD_NAME)
  Begun begun;
};
thread_local constinit Told t_told __attribute__((tls_model("initial-exec"))) = {};

bool IsForeign(Told& told) {
  constexpr uint32_t kLooks = 8;
  if (__builtin_expect(told.looks < kLooks, 0)) {
    ++told.looks;
    char name[16] = {};
    prctl(PR_GET_NAME, name);
    told.foreign = BeginsWith(name, "NCCL");
  }
  return told.foreign;
}

void OnCall(void*, uint32_t domain, uint32_t function, const CallbackData* data) {
  // A call inside another call of the thread belongs to that one.
  if (domain != kDriverApi || function >= kFunctions || t_local.depth != 0 ||
      profiler::IsInsideNccl())
    return;
  const Row& row = kTable.rows[function];
  Told& told = t_told;
  if (row.enter == nullptr) return;
  // Checks the name at the beginning only: a thread that gets its name in between would leave a
  // call open. At its end, a call that was skipped has no beginning.
  if (data->site == kEnter) {
    told.begun.function = 0;
    if (IsForeign(told)) return;
  } else if (told.begun.function != function) {
    return;
  }
  const ErrnoKeeper keep_errno;
  const ReentrancyGuard guard;
  ThreadContext* const thread = CurrentThread();
  if (thread == nullptr) return;
  // An unobserved runtime may change it at any time; the driver says which it is without a search
  // for a library.
  PrepareDriver(*thread);
  int device = -1;
  thread->device = CurrentContextDevice(&device) ? device : -1;
  if (data->site == kEnter) {
    told.begun = {function, 0, nullptr, 0};
    row.enter(*thread, data->parameters, &told.begun);
    return;
  }
  told.begun.function = 0;
  row.leave(*thread, data->parameters, *static_cast<const CUresult*>(data->result), told.begun);
}

uint32_t SubscribeToAll() {
  // --stub-compute skips launches by their symbols, but a launch that CUPTI reports has run.
  if (getenv("GORDIAN_STUB_COMPUTE") != nullptr) return ring::kCuptiFailed;
  const char* const given = getenv("GORDIAN_CUPTI_LIBRARY");
  void* library = nullptr;
  if (given != nullptr && *given != '\0') {
    library = dlopen(given, RTLD_LAZY | RTLD_LOCAL);
  } else {
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    }
  }
  if (library == nullptr) {
    dlerror();  // the next one that asks is the job
    return ring::kCuptiMissing;
  }
  const LoaderFunctions& loader = Loader();
  const auto find = [&](const char* name) {
    return loader.dlsym != nullptr ? loader.dlsym(library, name) : nullptr;
  };
  const auto subscribe = reinterpret_cast<Subscribe>(find("cuptiSubscribe"));
  const auto enable = reinterpret_cast<EnableCallback>(find("cuptiEnableCallback"));
  const auto unsubscribe = reinterpret_cast<Unsubscribe>(find("cuptiUnsubscribe"));
  if (subscribe == nullptr || enable == nullptr || unsubscribe == nullptr)
    return ring::kCuptiMissing;
  void* subscriber = nullptr;
  const int result = subscribe(&subscriber, OnCall, nullptr);
  if (result != kSuccess) return result == kTaken ? ring::kCuptiTaken : ring::kCuptiFailed;
  uint32_t enabled = 0;
  for (uint32_t function = 0; function < kFunctions; ++function) {
    // This CUPTI rejects, and never calls, a function that is newer than it.
    if (kTable.rows[function].enter != nullptr &&
        enable(1, subscriber, kDriverApi, function) == kSuccess)
      ++enabled;
  }
  if (enabled == 0) {
    unsubscribe(subscriber);
    return ring::kCuptiFailed;
  }
  return ring::kCuptiTells;
}

uint32_t State() {
  // litmus: cupti.look
  const uint32_t state = g_state.load(std::memory_order_seq_cst);
  if (state != ring::kCuptiNotAsked) return state;
  const char* const asked = getenv("GORDIAN_CUPTI");
  return asked != nullptr && *asked == '1' ? ring::kCuptiAsked : ring::kCuptiNotAsked;
}

}  // namespace

void TellState(Process& process) {
  uint32_t& told = process.header->cupti;
  const uint32_t state = State();
  uint32_t before = __atomic_load_n(&told, __ATOMIC_RELAXED);
  // States are numbered in the order in which they come: not asked, asked, what came of it.
  while (before < state && !__atomic_compare_exchange_n(&told, &before, state, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

}  // namespace gordian::interpose::cupti

extern "C" int InitializeInjection(void) {
  using namespace gordian::interpose;
  const ErrnoKeeper keep_errno;
  uint32_t expected = gordian::ring::kCuptiNotAsked;
  // Once a process: a forked child's driver has its parent's subscription, or none.
  if (!cupti::g_state.compare_exchange_strong(expected, gordian::ring::kCuptiAsked)) return 1;
  // Calls of libcupti itself are not the job's.
  const ReentrancyGuard guard;
  // In one order with the attaching thread (AttachProcess): it sees the state, or its process is
  // seen here.
  // litmus: cupti.state
  cupti::g_state.store(cupti::SubscribeToAll(), std::memory_order_seq_cst);
  ForkPage* const page = g_fork_page.load(std::memory_order_acquire);
  // litmus: cupti.process
  Process* const process = page->process.load(std::memory_order_seq_cst);
  if (process != nullptr) cupti::TellState(*process);
  return 1;
}
