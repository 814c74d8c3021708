// Registered memory on real GPUs: outputs in buffers that the program made with cuMemCreate,
// written by peers directly after grtCommRegister, and staged without.
//   gordian-runtime-register-cases CASE [--ranks N]
// Cases: kinds agreed ranges refused lifetimes stalled graph churn orders abort death. One process
// a rank, one device each.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"
#include "runtime/testing/vmm_memory.h"
#include "tests/gpu/runtime/rank_device.h"

namespace gordian::runtime::cuda {
namespace {

using testing::Now;
using testing::RankProcess;
using testing::Sleep;
using testing::Subject;
using testing::VmmMemory;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPatience = 20 * kSecond;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCount = 2 << 20;  // of floats: 8 MiB, by bulk in every kind

class Runner : public testing::Member {
 public:
  Runner(const std::string& what, RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        what_(what),
        p_(process) {}

  int Run() {
    Cuda(cudaSetDevice(testing::DeviceOf(r_)), "cudaSetDevice");
    Cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    Prepare();
    Cuda(cudaMalloc(reinterpret_cast<void**>(&meeting_), 8), "cudaMalloc");
    Cuda(cudaMemset(meeting_, 0, 8), "clearing");
    if (what_ == "kinds")
      Kinds();
    else if (what_ == "agreed")
      Agreed();
    else if (what_ == "ranges")
      Ranges();
    else if (what_ == "refused")
      Refused();
    else if (what_ == "lifetimes")
      Lifetimes();
    else if (what_ == "stalled")
      Stalled();
    else if (what_ == "graph")
      Graph();
    else if (what_ == "churn")
      Churn();
    else if (what_ == "orders")
      Orders();
    else if (what_ == "abort")
      Abort();
    else if (what_ == "death")
      Death();
    else
      return 2;
    return 0;
  }

 private:
  void Vmm(VmmMemory* memory, uint64_t bytes, int pieces = 1, bool exportable = true,
           uint64_t at = 0) {
    if (const std::string why = memory->Make(testing::DeviceOf(r_), bytes, pieces, exportable, at);
        !why.empty())
      p_.Fail(why);
  }
  grtReg_t Register(grtComm_t comm, void* memory, uint64_t bytes) {
    grtReg_t reg = nullptr;
    Ok(grtCommRegister(comm, memory, bytes, &reg), "registering");
    return reg;
  }
  uint64_t Direct(grtComm_t comm) {
    grtStats_t stats = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(comm, &stats), "stats");
    return stats.direct;
  }
  // The operation with its output at `out`, right; whether it was direct here.
  bool One(const Subject& made, float* out, grtComm_t comm, cudaStream_t stream) {
    Subject s = made;
    s.out = out;
    const uint64_t before = Direct(comm);
    const bool has_output =
        HasOutput(s.kind, static_cast<int32_t>(s.root), static_cast<uint32_t>(r_));
    if (has_output)
      Cuda(cudaMemsetAsync(out, 77, OutputCount(s.kind, s.count, static_cast<uint32_t>(n_)) * 4,
                           stream),
           "clearing");
    Before(s, stream);
    Ok(Call(s, comm, stream), "calling");
    if (has_output) After(s, stream);
    Finish(what_.c_str());
    return Direct(comm) != before;
  }
  bool One(const Subject& made, float* out, grtComm_t comm) {
    return One(made, out, comm, stream_);
  }
  void Want(bool direct, bool wanted, const std::string& what) {
    if (direct != wanted)
      p_.Fail(what + (wanted ? ": staged, not direct" : ": direct, not staged"));
  }
  uint64_t FreeBytes() {
    size_t free_bytes = 0, total = 0;
    Cuda(cudaMemGetInfo(&free_bytes, &total), "memory");
    return free_bytes;
  }
  // Of the device; ms that it took, -1: it did not come back.
  int AwaitFree(uint64_t bytes, int most_ms, uint64_t slack = 16 * kMiB) {
    for (int ms = 0; ms <= most_ms; ++ms) {
      if (FreeBytes() + slack >= bytes) return ms;
      Sleep(1);
    }
    printf("rank %d: %lu MiB are missing\n", r_,
           static_cast<unsigned long>((bytes - FreeBytes()) / kMiB));
    return -1;
  }
  // All ranks have come here.
  void Meet(grtComm_t comm) {
    Ok(grtAllReduce(meeting_, meeting_ + 1, 1, grtInt32, grtSum, comm, stream_), "meeting");
    Cuda(cudaStreamSynchronize(stream_), "meeting");
  }
  Subject MakeSubject(OpKind kind, uint64_t count = kCount, uint32_t root = 0) {
    Subject s = Make(kind, count);
    s.root = root;
    return s;
  }

  static constexpr OpKind kKinds[] = {
      OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll,
      OpKind::kReduce,    OpKind::kBroadcast, OpKind::kGather,        OpKind::kScatter};

  // Of all ranks, of one, of none. Which kinds are direct then: those in which all wait for all
  // anyway.
  void Kinds() {
    grtComm_t comm = Comm("kinds");
    VmmMemory memory;
    Vmm(&memory, 96 * kMiB);
    int direct = 0, staged = 0;
    for (const char* who : {"none", "all", "first", "none again"}) {
      const bool here = who[0] == 'a' || (who[0] == 'f' && r_ == 0);
      const grtReg_t reg = here ? Register(comm, memory.get(), 96 * kMiB) : nullptr;
      for (const OpKind kind : kKinds) {
        for (const uint64_t count : {1000ul, kCount, kCount + 12345}) {
          if (count * static_cast<uint64_t>(n_) * 4 > 96 * kMiB) continue;
          const auto root = static_cast<uint32_t>(n_ - 1);
          p_.At("%s: kind %d, %lu", who, static_cast<int>(kind), static_cast<unsigned long>(count));
          const Subject s = MakeSubject(kind, count, root);
          const bool in_shards =
              n_ > 2 && (kind == OpKind::kBroadcast || (kind == OpKind::kReduce && r_ == n_ - 1));
          const bool wanted = here && count >= kCount &&
                              (kind == OpKind::kAllReduce || kind == OpKind::kAllGather ||
                               kind == OpKind::kAllToAll || in_shards);
          const bool was = One(s, memory.floats(), comm);
          Want(was, wanted, std::string(who) + ", kind " + std::to_string(static_cast<int>(kind)));
          ++(was ? direct : staged);
          Free(s);
        }
      }
      if (here) Ok(grtCommDeregister(comm, reg), "deregister");
    }
    // In place, and detached.
    const grtReg_t reg = Register(comm, memory.get(), 96 * kMiB);
    Subject s = MakeSubject(OpKind::kAllReduce);
    float* const in = s.in;
    s.in = s.out = memory.floats();
    p_.At("in place");
    Before(s, stream_);
    const uint64_t before = Direct(comm);
    Ok(Call(s, comm, stream_), "calling");
    After(s, stream_);
    Finish("in place");
    Want(Direct(comm) != before, true, "in place");
    s.in = in;
    p_.At("detached");
    Before(s, stream_);
    Cuda(cudaStreamSynchronize(stream_), "input");
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.in = s.in;
    d.out = s.out;
    d.count = s.count;
    d.comm = comm;
    d.order = grtOrderDetached;
    grtOp_t op = nullptr;
    Ok(grtSubmit(&d, nullptr, &op), "detached");
    Ok(grtOpWait(op, kPatience), "detached");
    Ok(grtOpFree(op), "free");
    After(s, stream_);
    Finish("detached");
    Want(Direct(comm) != before + 1, true, "detached");
    Ok(grtCommDeregister(comm, reg), "deregister");
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("kinds: on rank 0 %d operations direct, %d staged, right\n", direct + 2, staged);
  }

  // Communicators whose members all had memory of grtMemAlloc: every kind that places data.
  void Agreed() {
    void* heap = nullptr;
    Ok(grtMemAlloc(&heap, kMiB), "grtMemAlloc");
    grtComm_t comm = Comm("agreed");
    VmmMemory memory;
    Vmm(&memory, 96 * kMiB);
    const grtReg_t reg =
        r_ != 0 ? Register(comm, memory.get(), 96 * kMiB) : nullptr;  // not on rank 0
    for (const OpKind kind : kKinds) {
      p_.At("kind %d", static_cast<int>(kind));
      const Subject s = MakeSubject(kind);
      const bool receives = kind == OpKind::kAllReduce || kind == OpKind::kAllGather ||
                            kind == OpKind::kAllToAll || kind == OpKind::kBroadcast ||
                            kind == OpKind::kScatter;  // the root is rank 0
      Want(One(s, memory.floats(), comm), receives && r_ != 0,
           "agreed, kind " + std::to_string(static_cast<int>(kind)));
      Free(s);
    }
    if (reg != nullptr) Ok(grtCommDeregister(comm, reg), "deregister");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Ok(grtMemFree(heap), "grtMemFree");
    Say("agreed: right\n");
  }

  void Ranges() {
    grtComm_t comm = Comm("ranges"), other = Comm("other");
    const Subject s = MakeSubject(OpKind::kAllReduce);
    VmmMemory whole, parts;
    Vmm(&whole, 64 * kMiB);
    Vmm(&parts, 32 * kMiB, 4);
    p_.At("a part");
    const grtReg_t part = Register(comm, whole.get() + 16 * kMiB, 32 * kMiB);
    Want(One(s, whole.floats(20 * kMiB + 256), comm), true, "within a part");
    Want(One(s, whole.floats(16 * kMiB), comm), true, "at its begin");
    Want(One(s, whole.floats(40 * kMiB), comm), true, "to its end");
    Want(One(s, whole.floats(41 * kMiB), comm), false, "beyond its end");
    Want(One(s, whole.floats(0), comm), false, "before it");
    Want(One(s, whole.floats(20 * kMiB), other), false, "another communicator");
    p_.At("twice");
    const grtReg_t again = Register(comm, whole.get(), 64 * kMiB),
                   elsewhere = Register(other, whole.get(), 64 * kMiB);
    Want(One(s, whole.floats(0), comm), true, "the whole");
    Ok(grtCommDeregister(comm, part), "deregister");
    Want(One(s, whole.floats(20 * kMiB), comm), true, "the whole without the part");
    Ok(grtCommDeregister(comm, again), "deregister");
    Want(One(s, whole.floats(20 * kMiB), comm), false, "deregistered");
    Want(One(s, whole.floats(20 * kMiB), other), true, "still the other's");
    Ok(grtCommDeregister(other, elsewhere), "deregister");
    Need(grtCommDeregister(comm, part), grtInvalidArgument, "twice");
    p_.At("several allocations");
    const grtReg_t all = Register(comm, parts.get() + 3 * kMiB, 26 * kMiB);
    Want(One(s, parts.floats(4 * kMiB), comm), true, "over two allocations");
    Want(One(s, parts.floats(15 * kMiB + 4), comm), true, "over two others, askew");
    Want(One(s, parts.floats(24 * kMiB), comm), false, "beyond the end");
    Ok(grtCommDeregister(comm, all), "deregister");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Ok(grtCommDestroy(other, kPatience), "destroy");
    Say("ranges: right\n");
  }

  void Refused() {
    grtComm_t comm = Comm("refused");
    grtReg_t reg = nullptr;
    void *device = nullptr, *host = nullptr;
    Cuda(cudaMalloc(&device, 16 * kMiB), "cudaMalloc");
    Cuda(cudaMallocHost(&host, kMiB), "cudaMallocHost");
    VmmMemory own, good;
    Vmm(&own, 16 * kMiB, 1, false);
    Vmm(&good, 16 * kMiB);
    Need(grtCommRegister(comm, device, 16 * kMiB, &reg), grtNotSupported, "cudaMalloc");
    Need(grtCommRegister(comm, host, kMiB, &reg), grtNotSupported, "host memory");
    Need(grtCommRegister(comm, own.get(), 16 * kMiB, &reg), grtNotSupported,
         "without a descriptor");
    Need(grtCommRegister(comm, good.get(), 4096 * kMiB, &reg), grtNotSupported, "beyond its end");
    Need(grtCommRegister(comm, nullptr, kMiB, &reg), grtInvalidArgument, "null");
    Need(grtCommRegister(comm, good.get(), 0, &reg), grtInvalidArgument, "nothing");
    const Subject s = MakeSubject(OpKind::kAllReduce);
    Want(One(s, static_cast<float*>(device), comm), false, "cudaMalloc");
    Want(One(s, own.floats(), comm), false, "without a descriptor");
    // What a refused call has begun it has ended: the twin.
    reg = Register(comm, good.get(), 16 * kMiB);
    Want(One(s, good.floats(), comm), true, "the twin");
    Ok(grtCommDeregister(comm, reg), "deregister");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("refused: as they must be; the twin direct\n");
  }

  // When memory comes back, and that a stale registration is none.
  void Lifetimes() {
    constexpr uint64_t kBytes = 1024 * kMiB;
    grtComm_t comm = Comm("lifetimes");
    const Subject s = MakeSubject(OpKind::kAllReduce);
    {
      VmmMemory first;
      Vmm(&first, 32 * kMiB);
      const grtReg_t reg = Register(comm, first.get(), 32 * kMiB);
      Want(One(s, first.floats(), comm), true, "first");
      Ok(grtCommDeregister(comm, reg), "deregister");
    }
    Meet(comm);
    const uint64_t free_before = FreeBytes();
    double registering = 0, ending = 0;
    for (int i = 0; i < 10; ++i) {
      p_.At("turn %d", i);
      VmmMemory memory;
      Vmm(&memory, kBytes);
      double begin = Now();
      const grtReg_t reg = Register(comm, memory.get(), kBytes);
      registering = std::max(registering, Now() - begin);
      Want(One(s, memory.floats(), comm), true, "registered");
      begin = Now();
      Ok(grtCommDeregister(comm, reg), "deregister");
      ending = std::max(ending, Now() - begin);
    }
    Meet(comm);
    const int back = AwaitFree(free_before, 2000);
    if (back < 0) p_.Fail("memory did not come back");
    p_.At("freed without a word");
    VmmMemory stale, next;
    Vmm(&stale, kBytes);
    const uint64_t at = stale.address();
    const grtReg_t reg = Register(comm, stale.get(), kBytes);
    Want(One(s, stale.floats(), comm), true, "before it is freed");
    stale.Free();
    Vmm(&next, kBytes, 1, true, at);
    const bool same = next.address() == at;
    Want(One(s, next.floats(), comm), false, "freed without a word");
    const grtReg_t fresh = Register(comm, next.get(), kBytes);
    Want(One(s, next.floats(), comm), true, "registered anew");
    Ok(grtCommDeregister(comm, reg), "deregister");
    Want(One(s, next.floats(), comm), true, "without the stale one");
    Ok(grtCommDeregister(comm, fresh), "deregister");
    next.Free();
    Meet(comm);
    if (AwaitFree(free_before, 2000) < 0)
      p_.Fail("memory did not come back after a stale registration");
    p_.At("the communicator ends first");
    grtComm_t ends = Comm("ends");
    VmmMemory last;
    Vmm(&last, kBytes);
    Register(ends, last.get(), kBytes);
    Want(One(s, last.floats(), ends), true, "registered");
    Ok(grtCommDestroy(ends, kPatience), "destroy");
    last.Free();
    Meet(comm);
    // The ended communicator's region stays with the process.
    if (AwaitFree(free_before - 256 * kMiB, 2000) < 0)
      p_.Fail("memory did not come back after its communicator");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("lifetimes: of 1 GiB, registering took %.2f ms at most, ending it %.2f ms, memory was back "
        "after %d ms; %s address used again\n",
        registering * 1e3, ending * 1e3, back, same ? "the same" : "NOT the same");
  }

  // Registering and ending it while kernels stand, here and there: nothing waits for them.
  void Stalled() {
    grtComm_t comm = Comm("stalled");
    const Subject s = MakeSubject(OpKind::kAllReduce);
    VmmMemory used, beside;
    Vmm(&used, 64 * kMiB);
    Vmm(&beside, 256 * kMiB, 4);
    const grtReg_t reg = Register(comm, used.get(), 64 * kMiB);
    Want(One(s, used.floats(), comm), true, "warm");
    for (const int late : {0, n_ - 1}) {
      // A rank comes late; the others' kernels wait for it. Both sides register memory and give it
      // up meanwhile.
      Subject waits = s;
      waits.out = used.floats();
      Meet(comm);
      p_.At("late: rank %d", late);
      Before(waits, stream_);
      const double begin = Now();
      if (r_ != late) Ok(Call(waits, comm, stream_), "calling");
      Sleep(r_ == late ? 300 : 50);
      grtReg_t more = nullptr;
      const double before = Now();
      const grtResult_t made = grtCommRegister(comm, beside.get(), 256 * kMiB, &more);
      const double middle = Now();
      if (made == grtSuccess) Ok(grtCommDeregister(comm, more), "deregister");
      const double after = Now();
      printf("stalled: rank %d, %s: registering took %.2f ms (%s), ending it %.2f ms\n", r_,
             r_ == late ? "while the others' kernels wait" : "while its own kernel waits",
             (middle - before) * 1e3, grtGetErrorString(made), (after - middle) * 1e3);
      fflush(stdout);
      Ok(made, "registering beside a kernel that waits");
      Sleep(r_ == late ? 200 : 0);
      const double called = Now() - begin;
      if (r_ == late) Ok(Call(waits, comm, stream_), "calling");
      After(waits, stream_);
      Finish("stalled");
      if (r_ == late) printf("stalled: rank %d called after %.0f ms\n", r_, called * 1e3);
    }
    // Ended while an operation with it is under way: peers keep it until that is over.
    p_.At("under way");
    Meet(comm);
    Subject waits = s;
    waits.out = used.floats();
    Before(waits, stream_);
    if (r_ == n_ - 1) Sleep(200);
    Ok(Call(waits, comm, stream_), "calling");
    Ok(grtCommDeregister(comm, reg), "deregister");
    After(waits, stream_);
    Finish("under way");
    Want(One(s, used.floats(), comm), false, "deregistered");
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("stalled: right\n");
  }

  // A graph's launches write where the memory was when they were captured.
  void Graph() {
    constexpr uint64_t kBytes = 512 * kMiB;
    grtComm_t comm = Comm("graph");
    Meet(comm);
    Subject s = MakeSubject(OpKind::kAllReduce);
    float* const own = s.out;
    const auto capture = [&](float* out) {
      s.out = out;
      Begin(stream_);
      All(s, comm, stream_);
      return End(stream_);
    };
    // What stays: order kept for a captured communicator, and the first registration's.
    Cuda(cudaGraphExecDestroy(capture(own)), "destroy");
    Meet(comm);
    const uint64_t free_before = FreeBytes();
    VmmMemory memory;
    Vmm(&memory, kBytes);
    const grtReg_t reg = Register(comm, memory.get(), kBytes);
    const uint64_t before = Direct(comm);
    const cudaGraphExec_t graph = capture(memory.floats(4 * kMiB));
    Want(Direct(comm) != before, true, "captured");
    for (int i = 0; i < 50; ++i) Launch(graph, stream_);
    Finish("launches");
    Ok(grtCommDeregister(comm, reg), "deregister");
    p_.At("launches after the end of the registration");
    for (int i = 0; i < 50; ++i) {
      Launch(graph, stream_);
      if (i % 10 == 0) All(s, comm, stream_);
    }
    Finish("launches after the end of the registration");
    memory.Free();
    Meet(comm);
    if (FreeBytes() + kBytes / 2 >= free_before) p_.Fail("the graph's memory was given up");
    Cuda(cudaGraphExecDestroy(graph), "destroy");
    const int back = AwaitFree(free_before, 3000, kBytes / 2);  // graphs have memory of their own
    if (back < 0) p_.Fail("memory did not come back with the graph's end");
    s.out = own;
    Meet(comm);
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("graph: 100 launches and 5 calls right, memory back %d ms after the graph's end\n", back);
  }

  // Each rank by itself registers and ends, between operations of all.
  void Churn() {
    grtComm_t comm = Comm("churn");
    constexpr int kBuffers = 4;
    VmmMemory memory[kBuffers];
    grtReg_t reg[kBuffers] = {};
    for (VmmMemory& m : memory) Vmm(&m, 32 * kMiB, 2);
    std::mt19937 own(static_cast<unsigned>(100 + r_)), equal(7);
    const Subject reduce = MakeSubject(OpKind::kAllReduce),
                  gather = MakeSubject(OpKind::kAllGather,
                                       kCount / 2 * 2 / static_cast<uint64_t>(n_) + 99);
    int direct = 0, turned = 0;
    for (int i = 0; i < 300; ++i) {
      p_.At("round %d", i);
      for (int k = 0; k < 2; ++k) {
        const auto which = own() % kBuffers;
        ++turned;
        if (reg[which] == nullptr) {
          reg[which] = Register(comm, memory[which].get(), 32 * kMiB);
        } else {
          Ok(grtCommDeregister(comm, reg[which]), "deregister");
          reg[which] = nullptr;
        }
      }
      const auto which = equal() % kBuffers;
      const Subject& s = equal() % 2 == 0 ? reduce : gather;
      Subject called = s;
      called.out = memory[which].floats(equal() % 1000 * 16);
      const uint64_t before = Direct(comm);
      Before(called, stream_);
      Ok(Call(called, comm, stream_), "calling");
      After(called, stream_);
      if (Direct(comm) != before) ++direct;
      // Sometimes the next changes come while it is under way.
      if (own() % 3 != 0) Finish("churn");
    }
    Finish("churn");
    Healthy(comm);
    const uint64_t sum = p_.Sum(static_cast<uint64_t>(direct));
    if (sum == 0) p_.Fail("nothing was direct");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("churn: 300 operations right, %d changes a rank, %.0f %% direct\n", turned,
        static_cast<double>(sum) / 3 / n_);
  }

  // Two communicators in opposite orders on one exclusive stream, outputs registered: helpers write
  // them too, or rooms for renamed outputs.
  void Orders() {
    grtComm_t a = Comm("a"), b = Comm("b");
    VmmMemory memory;
    Vmm(&memory, 64 * kMiB);
    Register(a, memory.get(), 64 * kMiB);
    Register(b, memory.get(), 64 * kMiB);
    Subject first = MakeSubject(OpKind::kAllReduce),
            second = MakeSubject(OpKind::kAllReduce, kCount + 777);
    One(first, memory.floats(), a);
    One(second, memory.floats(32 * kMiB), b);
    first.out = memory.floats();
    second.out = memory.floats(32 * kMiB);
    Before(first, stream_);
    Before(second, stream_);
    Finish("inputs");
    Ok(grtStreamExclusive(stream_, 1), "exclusive");
    for (int i = 0; i < 60; ++i) {
      p_.At("pair %d", i);
      const bool turned = r_ % 2 == 1;
      Ok(turned ? Call(second, b, stream_) : Call(first, a, stream_), "first");
      Ok(turned ? Call(first, a, stream_) : Call(second, b, stream_), "second");
      if (i % 2 == 1) Cuda(cudaStreamSynchronize(stream_), "pair");
    }
    Ok(grtStreamForeign(stream_), "foreign");
    After(first, stream_);
    After(second, stream_);
    Finish("orders");
    grtStats_t stats = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(a, &stats), "stats");
    const uint64_t helped = p_.Sum(stats.helped);
    if (helped == 0) p_.Fail("nothing was helped");
    Healthy(a);
    Ok(grtStreamExclusive(stream_, 0), "not exclusive");
    Ok(grtCommDestroy(a, kPatience), "destroy");
    Ok(grtCommDestroy(b, kPatience), "destroy");
    Say("orders: 60 pairs right, %llu channels helped\n", static_cast<unsigned long long>(helped));
  }

  // One gives up amid an operation with registered outputs; others go on with the same memory.
  void Abort() {
    grtComm_t comm = Comm("comm"), next = Comm("next");
    VmmMemory memory;
    Vmm(&memory, 64 * kMiB);
    Register(comm, memory.get(), 64 * kMiB);
    const grtReg_t reg = Register(next, memory.get(), 64 * kMiB);
    Subject s = MakeSubject(OpKind::kAllReduce);
    Want(One(s, memory.floats(), comm), true, "before");
    Subject called = s;
    called.out = memory.floats(32 * kMiB);
    if (r_ != n_ - 1) Ok(Call(called, comm, stream_), "calling");
    Sleep(100);
    Ok(grtCommAbort(comm), "abort");
    Cuda(cudaStreamSynchronize(stream_), "the stream goes on");
    Want(One(s, memory.floats(), next), true, "the next one");
    Ok(grtCommDeregister(next, reg), "deregister");
    Want(One(s, memory.floats(), next), false, "deregistered");
    Ok(grtCommDestroy(next, kPatience), "destroy");
    Say("abort: right\n");
  }

  // The last rank's process dies amid an operation with registered outputs.
  void Death() {
    grtComm_t comm = Comm("comm"), other = Comm("other");
    VmmMemory memory, more;
    Vmm(&memory, 64 * kMiB);
    Vmm(&more, 32 * kMiB);
    const grtReg_t reg = Register(comm, memory.get(), 64 * kMiB);
    const Subject s = MakeSubject(OpKind::kAllReduce);
    Want(One(s, memory.floats(), comm), true, "before");
    One(s, memory.floats(), other);
    Meet(comm);
    if (r_ == n_ - 1) {
      Sleep(200);
      raise(SIGKILL);
    }
    Subject called = s;
    called.out = memory.floats(32 * kMiB);
    Ok(Call(called, comm, stream_), "calling");
    const double begin = Now();
    Cuda(cudaStreamSynchronize(stream_), "the stream goes on");
    const double told = Now() - begin;
    grtResult_t error = grtSuccess;
    Ok(grtCommGetAsyncError(comm, &error), "asking for errors");
    Need(error, grtPeerDead, "a member dies");
    Ok(grtCommDeregister(comm, reg), "deregister");
    grtReg_t none = nullptr;
    Need(grtCommRegister(comm, more.get(), 32 * kMiB, &none), grtPeerDead,
         "registering with one that has failed");
    const double middle = Now();
    Need(grtCommRegister(other, more.get(), 32 * kMiB, &none), grtNotSupported,
         "registering with a dead peer");
    const double refused = Now() - middle;
    std::vector<float> values(kCount);
    Cuda(cudaMemcpy(values.data(), memory.floats(), kCount * 4, cudaMemcpyDeviceToHost),
         "the memory is there");
    Ok(grtCommAbort(comm), "abort");
    Ok(grtCommAbort(other), "abort");
    memory.Free();
    Say("death: the stream went on after %.0f ms; registering was refused after %.1f ms\n",
        told * 1e3, refused * 1e3);
  }

  const std::string what_;
  RankProcess& p_;
  cudaStream_t stream_ = nullptr;
  int32_t* meeting_ = nullptr;
};

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int ranks = 2;
  if (argc == 4 && std::string(argv[2]) == "--ranks") ranks = atoi(argv[3]);
  if (what.empty() || ranks < 2 || ranks > testing::kMostRanks) {
    fprintf(stderr, "usage: gordian-runtime-register-cases CASE [--ranks N]\n");
    return 2;
  }
  const uint32_t may_die = what == "death" ? 1u << (ranks - 1) : 0;
  const int result = testing::RunRanks(
      ranks, 60, 20, may_die, [&](RankProcess& process) { return Runner(what, process).Run(); });
  printf("%s %s --ranks %d\n", result == 0 ? "PASS" : "FAIL", what.c_str(), ranks);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
