// Stands before the functions of c10d::ProcessGroupGloo and c10d::Work, so that operations are seen
// that C++ issues, as DistributedDataParallel's reducer does, and those that Python issues cost the
// front end no more than the line of the job that it names.
//
// The loader binds PyTorch's tables of virtual functions to the first definition that it finds. Of
// C++ the shim needs only how arguments are passed: every one is a word. A function that throws passes
// through here: what comes after the call is then left out.
#include <stddef.h>
#include <stdint.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/state/ring_client.h"
#include "interpose/torch/torch_api.h"
#include "interpose/torch/torch_entries.h"
#include "interpose/torch/torch_groups.h"

namespace gordian::interpose {
namespace {

// Where the arguments of an operation say what it is about: `Tensors` is a std::vector<at::Tensor>,
// `Tensor` an at::Tensor, `Root` options that begin with the root; the number is the argument's.
enum class Shape {
  kTensors1,
  kTensors2,
  kTensor1,
  kTensor2,
  kTensors1Root2,
  kTensors1Root3,
  kTensors2Root3,
  kNothing,
  kUnequal,   // which members exchange anything depends on the sizes
  kSplits,    // the same, of out and in, sizes (std::vector<int64_t>) of either in argument 3 and 4
  kTransfer,  // tensors, peer, tag
  kAnySource,  // tensors, tag
};

struct Row {
  const char* method;
  const char* symbol;
  uint32_t call;
  Shape shape;
};
constexpr Row kRows[] = {
#define GORDIAN_GLOO_CALL(method, row, shape, symbol) \
  {#method, #symbol, ring::kTorchCall_##row, Shape::shape},
#include "interpose/torch/gloo_calls.def"
#undef GORDIAN_GLOO_CALL
};
enum RowId : uint32_t {
#define GORDIAN_GLOO_CALL(method, row, shape, symbol) kRow_##method,
#include "interpose/torch/gloo_calls.def"
#undef GORDIAN_GLOO_CALL
  kRowCount,
  // Not operations.
  kWorkWait = kRowCount,
  kSendWait,
  kReceiveWait,
  kWorkEnds,
  kFinish,
  kEnqueue,
  kMakeGroup,
  kEntryCount,
};

#define GORDIAN_GLOO_WORK_WAIT _ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE
#define GORDIAN_GLOO_SEND_WAIT \
  _ZN4c10d16ProcessGroupGloo8SendWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE
#define GORDIAN_GLOO_RECEIVE_WAIT \
  _ZN4c10d16ProcessGroupGloo8RecvWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE
#define GORDIAN_GLOO_WORK_ENDS _ZN4c10d4WorkD2Ev
#define GORDIAN_GLOO_FINISH _ZN4c10d16ProcessGroupGloo9AsyncWork14finishWorkGlooEv
#define GORDIAN_GLOO_ENQUEUE \
  _ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target_default_null_typeIS3_EEEE
#define GORDIAN_GLOO_MAKE \
  _ZN4c10d16ProcessGroupGlooC1ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE

constexpr const char* kOtherSymbols[] = {
    GORDIAN_NAME_OF(GORDIAN_GLOO_WORK_WAIT),    GORDIAN_NAME_OF(GORDIAN_GLOO_SEND_WAIT),
    GORDIAN_NAME_OF(GORDIAN_GLOO_RECEIVE_WAIT), GORDIAN_NAME_OF(GORDIAN_GLOO_WORK_ENDS),
    GORDIAN_NAME_OF(GORDIAN_GLOO_FINISH),       GORDIAN_NAME_OF(GORDIAN_GLOO_ENQUEUE),
    GORDIAN_NAME_OF(GORDIAN_GLOO_MAKE),
};
const char* SymbolOf(uint32_t entry) {
  return entry < kRowCount ? kRows[entry].symbol : kOtherSymbols[entry - kRowCount];
}

constinit std::atomic<void*> g_real[kEntryCount] = {};

void* Real(uint32_t entry, const void* caller) {
  return RealBehind(&g_real[entry], SymbolOf(entry), caller);
}

// Elements and types (as OperationPayload has them) of a c10::TensorImpl.
void Measure(const TensorLayout& layout, const char* tensor, uint64_t* count, uint32_t* types) {
  if (tensor == nullptr || layout.elements_at == 0) return;
  *count = *reinterpret_cast<const uint64_t*>(tensor + layout.elements_at);
  const uint16_t type = *reinterpret_cast<const uint16_t*>(tensor + layout.type_at);
  if (type < kTensorTypes) *types = (*types & ~0xffu) | layout.types[type];
}
const char* TensorOf(const void* reference) { return *static_cast<char* const*>(reference); }
const char* FirstOf(const void* vector) {
  const auto* const ends = static_cast<void* const* const*>(vector);  // begin, end, capacity
  return ends[0] != ends[1] ? static_cast<const char*>(*ends[0]) : nullptr;
}
int32_t RootOf(const void* options) {
  return static_cast<int32_t>(*static_cast<const int64_t*>(options));
}
// Whether it exchanges something with every member: no sizes stand for equal ones.
bool HasAll(const TensorLayout& layout, const void* out, const void* in, const void* out_sizes,
            const void* in_sizes) {
  uint64_t elements[2] = {0, 0};
  uint32_t types = 0;
  Measure(layout, TensorOf(out), &elements[0], &types);
  Measure(layout, TensorOf(in), &elements[1], &types);
  const auto* const outs = static_cast<const int64_t* const*>(out_sizes);  // as in FirstOf
  const auto* const ins = static_cast<const int64_t* const*>(in_sizes);
  const ptrdiff_t count[2] = {outs[1] - outs[0], ins[1] - ins[0]};
  const ptrdiff_t members = count[0] > count[1] ? count[0] : count[1];
  if (members == 0) return elements[0] != 0 || elements[1] != 0;
  for (ptrdiff_t i = 0; i < members; ++i) {
    const bool receives = i < count[0] ? outs[0][i] != 0 : count[0] == 0 && elements[0] != 0;
    const bool sends = i < count[1] ? ins[0][i] != 0 : count[1] == 0 && elements[1] != 0;
    if (!receives && !sends) return false;
  }
  return true;
}
int32_t NumberOf(const void* argument) {
  return static_cast<int32_t>(reinterpret_cast<intptr_t>(argument));
}

// An operation that is being issued. Lies on the stack of the thread that does.
struct Issue {
  ThreadContext* thread = nullptr;  // null: goes unrecorded
  TorchState* torch = nullptr;
};

// Operations that the function itself issues are part of it. A frame that an exception has ended
// may still be noted here, until the thread's next call from Python.
bool IsInsideAnother(const ThreadContext& thread, const Issue& issue) {
  return thread.torch.recorded || thread.torch.issue > reinterpret_cast<uintptr_t>(&issue);
}

void Begin(Issue* issue, uint32_t entry, const void* object, void* const (&arguments)[5],
           const void* caller) {
  TorchState* const torch = TorchOfProcess();
  if (torch == nullptr) return;
  TorchGroup* const group = FindTorchGroupOf(*torch, reinterpret_cast<uint64_t>(object));
  ThreadContext* const thread = group != nullptr ? CurrentThread() : nullptr;
  if (thread == nullptr || IsInsideAnother(*thread, *issue)) return;
  const Row& row = kRows[entry];
  const TensorLayout& layout = torch->layout;
  constexpr uint32_t kUnknown = 255u | 255u << 8;
  uint64_t count = 0;
  uint32_t types = kUnknown;
  int32_t root_or_peer = -1;
  uint64_t tag = 0;
  bool with_all = false;
  TorchPart part = kTorchCollective;
  switch (row.shape) {
    case Shape::kTensors1:
      Measure(layout, FirstOf(arguments[0]), &count, &types);
      break;
    case Shape::kTensors2:
      Measure(layout, FirstOf(arguments[1]), &count, &types);
      break;
    case Shape::kTensor1:
      Measure(layout, TensorOf(arguments[0]), &count, &types);
      break;
    case Shape::kTensor2:
      Measure(layout, TensorOf(arguments[1]), &count, &types);
      break;
    case Shape::kTensors1Root2:
      Measure(layout, FirstOf(arguments[0]), &count, &types);
      root_or_peer = RootOf(arguments[1]);
      break;
    case Shape::kTensors1Root3:
      Measure(layout, FirstOf(arguments[0]), &count, &types);
      root_or_peer = RootOf(arguments[2]);
      break;
    case Shape::kTensors2Root3:
      Measure(layout, FirstOf(arguments[1]), &count, &types);
      root_or_peer = RootOf(arguments[2]);
      break;
    case Shape::kNothing:
      count = 1;
      break;
    case Shape::kUnequal:
      break;
    case Shape::kSplits:
      with_all = HasAll(layout, arguments[0], arguments[1], arguments[2], arguments[3]);
      break;
    case Shape::kTransfer:
      Measure(layout, FirstOf(arguments[0]), &count, &types);
      part = row.call == ring::kTorchCall_send ? kTorchSend : kTorchReceive;
      root_or_peer = NumberOf(arguments[1]);
      tag = static_cast<uint32_t>(NumberOf(arguments[2]));
      break;
    case Shape::kAnySource:
      Measure(layout, FirstOf(arguments[0]), &count, &types);
      part = kTorchReceive;
      tag = static_cast<uint32_t>(NumberOf(arguments[1]));
      break;
  }
  const uint32_t comm = group->comm.load(std::memory_order_relaxed);
  const uint64_t peer = part == kTorchCollective ? 0 : static_cast<uint64_t>(int64_t{root_or_peer});
  TorchOperation operation = {comm, part, 0, peer};
  if (!TakeTorchNumber(*thread->process, *torch, *group, part, peer, tag, &operation.number))
    return;
  const uint64_t site =
      thread->torch.site != 0 ? thread->torch.site : reinterpret_cast<uint64_t>(caller);
  RecordTorchOperation(*thread, row.call, comm, operation.number, root_or_peer, count, types, site,
                       with_all);
  thread->torch.issue = reinterpret_cast<uintptr_t>(issue);
  thread->torch.issued = operation;
  thread->torch.held = false;
  issue->thread = thread;
  issue->torch = torch;
}

void Hold(ThreadContext& thread, TorchState& torch, const void* work) {
  if (work == nullptr || thread.torch.held) return;
  thread.torch.held = true;
  TorchOperation before;
  HoldTorchWork(*thread.process, torch, reinterpret_cast<uint64_t>(work), thread.torch.issued,
                &before);
  if (before.comm != ring::kNoId) SeeTorchOperation(thread, before);
}

void End(const Issue& issue, const void* work) {
  if (issue.thread == nullptr || !StillAttached(*issue.thread)) return;
  issue.thread->torch.issue = 0;
  Hold(*issue.thread, *issue.torch, work);
}

using Work = Returned<1>;  // c10::intrusive_ptr<c10d::Work>
using Operation = Work (*)(void*, void*, void*, void*, void*, void*);
Work Observed(Operation real, uint32_t entry, void* object, void* const (&arguments)[5],
              const void* caller) {
  Issue issue;
  Begin(&issue, entry, object, arguments, caller);
  Work work = real(object, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
  End(issue, work.words[0]);
  return work;
}
Work Call(uint32_t entry, void* object, void* const (&arguments)[5], const void* caller) {
  const auto real = reinterpret_cast<Operation>(Real(entry, caller));
  if (__builtin_expect(real == nullptr, 0)) return Work::Nothing();
  return Observed(real, entry, object, arguments, caller);
}

// Slots for threads are few: those of gloo's do not take the last ones.
ThreadContext* ThreadIfRoom(TorchState& torch, uint64_t work) {
  if (torch.by_work.Find(work) == torch.by_work.kMissing) return nullptr;
  if (ThreadContext* const attached = AttachedThread()) return attached;
  const ForkPage* const page = g_fork_page.load(std::memory_order_relaxed);
  Process* const process = page->process.load(std::memory_order_relaxed);
  const bool room = process->threads_used.load(std::memory_order_relaxed) < ring::kMaxThreads / 2;
  return room ? CurrentThread() : nullptr;
}

// No thread waits for the operation from here on.
void Drop(const void* object) {
  TorchState* const torch = TorchOfProcess();
  if (torch == nullptr) return;
  const auto work = reinterpret_cast<uint64_t>(object);
  const ErrnoKeeper keep_errno;
  ThreadContext* const thread = ThreadIfRoom(*torch, work);
  const TorchOperation operation = DropTorchWork(*torch, work);
  if (thread != nullptr && operation.comm != ring::kNoId) SeeTorchOperation(*thread, operation);
}

using WaitFunction = bool (*)(void*, int64_t);
bool Wait(uint32_t entry, void* work, int64_t limit_ms, const void* caller) {
  const auto real = reinterpret_cast<WaitFunction>(Real(entry, caller));
  if (__builtin_expect(real == nullptr, 0)) return false;
  TorchState* const torch = TorchOfProcess();
  // Only a call from Python is certain to be left again as seen from here, whatever is thrown.
  ThreadContext* const thread = torch != nullptr ? AttachedThread() : nullptr;
  if (thread == nullptr || thread->torch.depth == 0 || thread->torch.recorded) {
    return real(work, limit_ms);
  }
  const TorchOperation operation = FindTorchWork(*torch, reinterpret_cast<uint64_t>(work));
  if (operation.comm == ring::kNoId || thread->torch.waits != ring::kCallNone ||
      (limit_ms > 0 && limit_ms < kLongLimitMs)) {
    return real(work, limit_ms);
  }
  gordian_torch_wait(ring::kTorchCall_wait, operation.comm, operation.number, operation.part,
                     operation.peer, thread->torch.site);
  thread->torch.waits = ring::kTorchCall_wait;
  const bool done = real(work, limit_ms);
  if (!StillAttached(*thread)) return done;
  thread->torch.waits = ring::kCallNone;
  gordian_torch_waited(ring::kTorchCall_wait, done ? 0 : 1);
  if (done) DropTorchWork(*torch, reinterpret_cast<uint64_t>(work));
  return done;
}

}  // namespace
}  // namespace gordian::interpose

#define GORDIAN_GLOO_CALL(method, row, shape, symbol)                                      \
  GORDIAN_ENTRY(gordian::interpose::Work, symbol, void* object, void* a, void* b, void* c, \
                void* d, void* e) {                                                        \
    using namespace gordian::interpose;                                                    \
    return Call(kRow_##method, object, {a, b, c, d, e}, __builtin_return_address(0));      \
  }
#include "interpose/torch/gloo_calls.def"
#undef GORDIAN_GLOO_CALL

GORDIAN_ENTRY(bool, GORDIAN_GLOO_WORK_WAIT, void* work, int64_t limit_ms) {
  using namespace gordian::interpose;
  return Wait(kWorkWait, work, limit_ms, __builtin_return_address(0));
}
GORDIAN_ENTRY(bool, GORDIAN_GLOO_SEND_WAIT, void* work, int64_t limit_ms) {
  using namespace gordian::interpose;
  return Wait(kSendWait, work, limit_ms, __builtin_return_address(0));
}
GORDIAN_ENTRY(bool, GORDIAN_GLOO_RECEIVE_WAIT, void* work, int64_t limit_ms) {
  using namespace gordian::interpose;
  return Wait(kReceiveWait, work, limit_ms, __builtin_return_address(0));
}
GORDIAN_ENTRY(void, GORDIAN_GLOO_WORK_ENDS, void* work) {
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<void (*)(void*)>(Real(kWorkEnds, __builtin_return_address(0)));
  Drop(work);
  if (real != nullptr) real(work);
}
// On a thread of gloo's: the operation has been carried out.
GORDIAN_ENTRY(void, GORDIAN_GLOO_FINISH, void* work) {
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<void (*)(void*)>(Real(kFinish, __builtin_return_address(0)));
  Drop(work);
  if (real != nullptr) real(work);
}
// Before a thread of gloo's may carry it out.
GORDIAN_ENTRY(void, GORDIAN_GLOO_ENQUEUE, void* object, void** work) {
  using namespace gordian::interpose;
  const auto real =
      reinterpret_cast<void (*)(void*, void**)>(Real(kEnqueue, __builtin_return_address(0)));
  TorchState* const torch = TorchOfProcess();
  ThreadContext* const thread = torch != nullptr ? AttachedThread() : nullptr;
  if (thread != nullptr && thread->torch.issue != 0) Hold(*thread, *torch, *work);
  if (real != nullptr) real(object, work);
}
GORDIAN_ENTRY(void, GORDIAN_GLOO_MAKE, void* object, void* store, int rank, int size,
              void* options) {
  using namespace gordian::interpose;
  const auto real = reinterpret_cast<void (*)(void*, void*, int, int, void*)>(
      Real(kMakeGroup, __builtin_return_address(0)));
  TorchState* const torch = TorchOfProcess();
  ThreadContext* const thread = torch != nullptr ? AttachedThread() : nullptr;
  if (thread != nullptr && thread->torch.making != gordian::ring::kNoId) {
    BindTorchGroup(*torch, thread->torch.making, reinterpret_cast<uint64_t>(object));
    thread->torch.making = gordian::ring::kNoId;
  }
  if (real != nullptr) real(object, store, rank, size, options);
}

// Which operations come through the shim, as a list of the methods' names: the tables of virtual
// functions of the PyTorch that `path` was linked to are bound to it. Empty: too few, and the front
// end records the calls itself.
GORDIAN_API const char* gordian_torch_gloo(const char* path) {
  using namespace gordian::interpose;
  static char names[1024];
  const ErrnoKeeper keep_errno;
  names[0] = '\0';
  const auto is_bound = [path](const char* table, const void* function) {
    return IsInTable(path, table, function);
  };
  const bool waits =
      is_bound("_ZTVN4c10d16ProcessGroupGloo9AsyncWorkE", (void*)&GORDIAN_GLOO_WORK_WAIT) &&
      is_bound("_ZTVN4c10d16ProcessGroupGloo8SendWorkE", (void*)&GORDIAN_GLOO_SEND_WAIT) &&
      is_bound("_ZTVN4c10d16ProcessGroupGloo8RecvWorkE", (void*)&GORDIAN_GLOO_RECEIVE_WAIT);
  if (!waits) return names;
  // A forked child must not look for them.
  for (uint32_t entry = 0; entry < kEntryCount; ++entry) {
    if (void* const real = FindInFile(path, SymbolOf(entry)); real != nullptr) {
      g_real[entry].store(real, std::memory_order_release);
    }
  }
  size_t length = 0;
  const auto add = [&length](const char* name) {
    while (*name != '\0' && length + 2 < sizeof(names)) names[length++] = *name++;
    names[length++] = ' ';
    names[length] = '\0';
  };
#define GORDIAN_GLOO_CALL(method, row, shape, symbol) \
  if (is_bound("_ZTVN4c10d16ProcessGroupGlooE", (void*)&symbol)) add(#method);
#include "interpose/torch/gloo_calls.def"
#undef GORDIAN_GLOO_CALL
  return names;
}
