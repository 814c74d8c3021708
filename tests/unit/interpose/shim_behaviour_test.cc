// What the shim writes, and that the job does not notice: programs of job.cc under LD_PRELOAD.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <time.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "proto/ring/calls.h"
#include "tests/unit/interpose/job_runner.h"

namespace gordian::test {
namespace {

using namespace ring;  // NOLINT: the contract under test

// Maps a live ring as the collector does.
class LiveRing {
 public:
  explicit LiveRing(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR);
    void* base = mmap(nullptr, kMaxFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    header_ = static_cast<Header*>(base);
  }
  ~LiveRing() { munmap(header_, kMaxFileBytes); }
  Header& header() { return *header_; }
  StreamSlot& stream(int index) {
    return reinterpret_cast<StreamSlot*>(reinterpret_cast<char*>(header_) +
                                         header_->streams_offset)[index];
  }
  CommSlot& comm(int index) {
    return reinterpret_cast<CommSlot*>(reinterpret_cast<char*>(header_) +
                                       header_->comms_offset)[index];
  }
  ThreadSlot& thread(int index) {
    return reinterpret_cast<ThreadSlot*>(reinterpret_cast<char*>(header_) +
                                         header_->threads_offset)[index];
  }
  // One round: true when the watcher answered.
  bool Round() {
    const uint32_t request = __atomic_add_fetch(&header_->round_request, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &header_->round_request, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    return Until(
        [&] { return __atomic_load_n(&header_->round_answer, __ATOMIC_ACQUIRE) == request; });
  }
  static bool Until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

 private:
  Header* header_;
};

TEST(Shim, KnowsWhetherCommunicatorsConnectAtFirstUse) {
  const auto connects_late = [](const Job::Environment& environment) {
    return RunOne("operations", environment).header.runtime_connect;
  };
  EXPECT_EQ(connects_late({{"NCCL_RUNTIME_CONNECT", "1"}, {"NCCL_CUMEM_ENABLE", "1"}}), 1u);
  EXPECT_EQ(connects_late({{"NCCL_RUNTIME_CONNECT", "0"}}), 0u);
  EXPECT_EQ(connects_late({{"NCCL_CUMEM_ENABLE", "0"}}), 0u);
}

// record.h: of work the time may lag, but is never later than the truth, and does not stand still.
TEST(Shim, TimesOfWorkLieBetweenTheirNeighbours) {
  const RingFile file = RunOne("times", {});
  const auto reduce = file.Of(kCall_ncclAllReduce);
  const auto recorded = file.Of(kCall_cudaEventRecord);
  ASSERT_EQ(reduce.size(), 4u);
  ASSERT_EQ(recorded.size(), 100u);
  EXPECT_GE(recorded.front().ticks, reduce[1].ticks);
  EXPECT_LE(recorded.back().ticks, reduce[2].ticks);
  const auto ns = static_cast<unsigned __int128>(recorded.back().ticks - reduce[0].ticks) *
                      file.header.clock.ns_per_tick_q32 >>
                  32;
  EXPECT_GE(static_cast<uint64_t>(ns), 90'000'000u);  // it slept for 100 ms in between
}

TEST(Shim, OperationsAreNumberedAndPlaced) {
  const RingFile file = RunOne("operations", {{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(file.header.env_rank, 3);
  EXPECT_EQ(file.header.env_world_size, 4);
  EXPECT_EQ(file.header.env_local_rank, -1);
  EXPECT_EQ(file.header.lost_records, 0u);
  EXPECT_EQ(file.NcclCalls(), 10u);
  EXPECT_EQ(file.header.runtime_connect, 1u);

  const auto init = file.Of(kCall_ncclCommInitRank);
  ASSERT_EQ(init.size(), 2u);
  EXPECT_EQ(init[0].payload.comm_init.nranks, 4);
  EXPECT_EQ(init[0].payload.comm_init.rank, 1);
  EXPECT_EQ(init[1].payload.end.comm, init[0].payload.comm_init.comm);
  EXPECT_EQ(init[1].payload.end.nranks, 4);

  const auto reduce = file.Of(kCall_ncclAllReduce);
  ASSERT_EQ(reduce.size(), 6u);
  EXPECT_EQ(reduce[0].kind, RecordKind::kBegin);
  EXPECT_EQ(reduce[0].payload.operation.count, 16u);
  EXPECT_EQ(reduce[0].payload.operation.sequence, 0u);
  EXPECT_EQ(reduce[0].payload.operation.datatype, 7);  // ncclFloat
  EXPECT_EQ(reduce[0].payload.operation.reduce_op, 0);
  EXPECT_EQ(reduce[0].payload.operation.root_or_peer, -1);
  EXPECT_EQ(reduce[0].flags, kFlagInPlace);
  EXPECT_NE(reduce[0].call_site, 0u);
  EXPECT_EQ(reduce[1].kind, RecordKind::kEnd);
  EXPECT_EQ(reduce[1].payload.end.ordinal, 1u);
  EXPECT_EQ(reduce[1].payload.end.stream, reduce[0].payload.operation.stream);
  EXPECT_GE(reduce[1].ticks, reduce[0].ticks);
  // The refused one takes no ordinal, and its sequence number is used again.
  EXPECT_EQ(reduce[2].payload.operation.sequence, 2u);
  EXPECT_EQ(reduce[3].payload.end.result, 4);
  EXPECT_EQ(reduce[3].payload.end.ordinal, 0u);
  EXPECT_EQ(reduce[4].payload.operation.sequence, 2u);
  EXPECT_NE(reduce[4].payload.operation.stream, reduce[0].payload.operation.stream);
  EXPECT_EQ(reduce[5].payload.end.ordinal, 1u);

  const auto broadcast = file.Of(kCall_ncclBroadcast);
  ASSERT_EQ(broadcast.size(), 2u);
  EXPECT_EQ(broadcast[0].payload.operation.root_or_peer, 3);
  EXPECT_EQ(broadcast[0].payload.operation.reduce_op, 255);
  EXPECT_EQ(broadcast[0].payload.operation.sequence, 1u);
  EXPECT_EQ(broadcast[0].flags, 0);

  const auto send = file.Of(kCall_ncclSend);
  ASSERT_EQ(send.size(), 6u);
  EXPECT_EQ(send[0].payload.operation.sequence, 0u);
  EXPECT_EQ(send[2].payload.operation.sequence, 0u);  // another peer
  EXPECT_EQ(send[4].payload.operation.sequence, 1u);
  EXPECT_EQ(file.Of(kCall_ncclRecv)[0].payload.operation.sequence, 0u);

  ASSERT_EQ(file.comms.size(), 1u);
  EXPECT_EQ(file.comms[0].state, ring::CommState::kAborted);
  EXPECT_EQ(file.comms[0].next_sequence, 3u);
  ASSERT_EQ(file.threads.size(), 1u);
  EXPECT_EQ(file.threads[0].gpu_thread, 1);
  EXPECT_EQ(file.threads[0].call, kCallNone);
  EXPECT_EQ(file.threads[0].entered, file.threads[0].left);
  EXPECT_EQ(file.threads[0].seq % 2, 0u);
}

TEST(Shim, GroupsAreOneOperationAStream) {
  const RingFile file = RunOne("groups");
  const auto end = file.Of(kCall_ncclGroupEnd);
  ASSERT_EQ(end.size(), 6u);  // begin, two streams, end; an empty group; the inner end is silent
  EXPECT_EQ(end[0].kind, RecordKind::kBegin);
  EXPECT_EQ(end[0].payload.group.group, 1u);
  EXPECT_EQ(end[0].payload.group.operations, 3u);
  EXPECT_EQ(end[0].payload.group.streams, 2u);
  EXPECT_EQ(end[1].kind, RecordKind::kEnqueue);
  EXPECT_EQ(end[1].payload.enqueue.ordinal, 2u);  // behind the kernel
  EXPECT_EQ(end[2].kind, RecordKind::kEnqueue);
  EXPECT_EQ(end[2].payload.enqueue.ordinal, 1u);
  EXPECT_NE(end[1].payload.enqueue.stream, end[2].payload.enqueue.stream);
  EXPECT_EQ(end[3].kind, RecordKind::kEnd);
  EXPECT_EQ(end[4].payload.group.group, 2u);
  EXPECT_EQ(end[4].payload.group.operations, 0u);
  const auto reduce = file.Of(kCall_ncclAllReduce);
  ASSERT_EQ(reduce.size(), 2u);
  EXPECT_EQ(reduce[0].flags, kFlagInGroup | kFlagInPlace);
  EXPECT_EQ(reduce[0].payload.operation.group, 1u);
  EXPECT_EQ(reduce[1].payload.end.stream, kNoId);
  EXPECT_EQ(reduce[1].payload.end.ordinal, 0u);
  EXPECT_TRUE(file.Of(kCall_ncclGroupStart).empty());
  EXPECT_EQ(file.threads[0].open_group, 1u);  // the last one was not ended
}

TEST(Shim, GroupsThatLaunchNothingGiveTheirNumbersBack) {
  const RingFile file = RunOne("dropped-groups");
  const auto reduce = file.Of(kCall_ncclAllReduce);
  ASSERT_EQ(reduce.size(), 10u);
  EXPECT_EQ(reduce[0].payload.operation.sequence, 0u);
  EXPECT_EQ(reduce[2].payload.operation.sequence, 1u);  // in the group that fails
  EXPECT_EQ(reduce[4].payload.operation.sequence, 2u);
  EXPECT_EQ(reduce[6].payload.operation.sequence, 1u);  // in the one that is only simulated
  EXPECT_EQ(reduce[8].payload.operation.sequence, 1u);
  const auto send = file.Of(kCall_ncclSend);
  ASSERT_EQ(send.size(), 4u);
  EXPECT_EQ(send[0].payload.operation.sequence, 0u);
  EXPECT_EQ(send[2].payload.operation.sequence, 0u);
  ASSERT_EQ(file.comms.size(), 1u);
  EXPECT_EQ(file.comms[0].next_sequence, 2u);
  EXPECT_EQ(file.streams[0].enqueued, 3u);
  EXPECT_EQ(file.threads[0].open_group, 0u);
}

TEST(Shim, CommunicatorCallsThatFailChangeNothing) {
  const RingFile file = RunOne("failed-comm-calls");
  ASSERT_EQ(file.comms.size(), 1u);
  EXPECT_EQ(file.comms[0].state, ring::CommState::kReady);
  EXPECT_EQ(file.comms[0].next_sequence, 4u);  // one communicator all along
}

TEST(Shim, CommunicatorsAreTheSameAtEveryMember) {
  const RingFile file = RunOne("inits");
  const RingFile again = RunOne("inits");
  const auto config = file.Of(kCall_ncclCommInitRankConfig);
  ASSERT_EQ(config.size(), 3u);
  EXPECT_EQ(config[1].kind, RecordKind::kText);
  EXPECT_STREQ(config[1].payload.text.text, "data parallel");
  EXPECT_EQ(config[0].payload.comm_init.uid,
            again.Of(kCall_ncclCommInitRankConfig)[0].payload.comm_init.uid);
  const auto split = file.Of(kCall_ncclCommSplit);
  ASSERT_EQ(split.size(), 4u);
  EXPECT_EQ(split[0].payload.comm_init.parent, config[0].payload.comm_init.comm);
  EXPECT_EQ(split[0].payload.comm_init.color, 3);
  EXPECT_EQ(split[0].payload.comm_init.nranks, 0);
  EXPECT_EQ(split[1].payload.end.nranks, 2);
  EXPECT_EQ(split[1].payload.end.rank, 1);
  EXPECT_EQ(split[2].payload.comm_init.color, -1);
  EXPECT_EQ(split[3].payload.end.nranks, 0);
  const auto split_again = again.Of(kCall_ncclCommSplit);
  EXPECT_EQ(split[0].payload.comm_init.uid, split_again[0].payload.comm_init.uid);
  EXPECT_EQ(split[2].payload.comm_init.uid, split_again[2].payload.comm_init.uid);
  std::set<uint64_t> uids = {config[0].payload.comm_init.uid, split[0].payload.comm_init.uid,
                             split[2].payload.comm_init.uid,
                             file.Of(kCall_ncclCommShrink)[0].payload.comm_init.uid};
  EXPECT_EQ(uids.size(), 4u);
  const auto all = file.Of(kCall_ncclCommInitAll);
  ASSERT_EQ(all.size(), 6u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].kind, RecordKind::kBegin);
    EXPECT_EQ(all[i].payload.comm_init.rank, i);
    EXPECT_EQ(all[i].payload.comm_init.device, i);
    EXPECT_EQ(all[3 + i].kind, RecordKind::kEnd);
    EXPECT_EQ(all[3 + i].payload.end.comm, all[i].payload.comm_init.comm);
  }
  EXPECT_NE(all[0].payload.comm_init.uid, again.Of(kCall_ncclCommInitAll)[0].payload.comm_init.uid);

  std::map<uint32_t, CommSlot> comms;
  for (const CommSlot& slot : file.comms) comms[slot.comm] = slot;
  const auto state = [&](const Record& begin) { return comms[begin.payload.comm_init.comm].state; };
  EXPECT_EQ(state(config[0]), ring::CommState::kRevoked);
  EXPECT_STREQ(comms[config[0].payload.comm_init.comm].name, "data parallel");
  EXPECT_EQ(state(split[0]), ring::CommState::kDestroyed);
  EXPECT_EQ(comms.count(split[2].payload.comm_init.comm), 0u);
  EXPECT_EQ(state(all[0]), ring::CommState::kAborted);
  EXPECT_EQ(state(all[1]), ring::CommState::kReady);
  const auto init = file.Of(kCall_ncclCommInitRank);
  ASSERT_EQ(init.size(), 6u);
  EXPECT_EQ(state(init[0]), ring::CommState::kFailed);
  EXPECT_EQ(init[1].payload.end.result, 3);
  EXPECT_EQ(state(init[2]), ring::CommState::kReady);
  EXPECT_EQ(state(init[4]), ring::CommState::kReady);
}

TEST(Shim, HostWaitsSayWhatTheyCover) {
  const RingFile file = RunOne("waits");
  const auto stream = file.Of(kCall_cudaStreamSynchronize);
  ASSERT_EQ(stream.size(), 4u);
  EXPECT_EQ(stream[0].payload.host_wait.kind, WaitKind::kStream);
  EXPECT_EQ(stream[0].payload.host_wait.ordinal, 1u);
  EXPECT_EQ(stream[3].payload.end.result, 719);
  EXPECT_EQ(file.Of(kCall_cudaEventSynchronize)[0].payload.host_wait.event, 0x5000u);
  EXPECT_EQ(file.Of(kCall_cudaDeviceSynchronize)[0].payload.host_wait.kind, WaitKind::kDevice);
  const auto free = file.Of(kCall_cudaFree);
  ASSERT_EQ(free.size(), 2u);  // freeing nothing is no wait
  EXPECT_EQ(free[0].payload.host_wait.kind, WaitKind::kFree);
  const auto copy = file.Of(kCall_cudaMemcpy);
  ASSERT_EQ(copy.size(), 2u);
  EXPECT_EQ(copy[0].payload.host_wait.kind, WaitKind::kCopy);
  EXPECT_NE(copy[0].payload.host_wait.stream, kNoId);
  const auto queued = file.Of(kCall_cudaMemcpyAsync);  // what a copy inside the device is
  ASSERT_EQ(queued.size(), 1u);
  EXPECT_EQ(queued[0].payload.work.stream, copy[0].payload.host_wait.stream);
}

TEST(Shim, RunsOfKernelsTakeOneOrdinal) {
  const RingFile file = RunOne("events");
  const auto created = file.Of(kCall_cudaStreamCreateWithFlags);
  ASSERT_EQ(created.size(), 4u);
  const uint32_t one = created[0].payload.stream.stream;
  const uint32_t two = created[1].payload.stream.stream;
  EXPECT_EQ(created[0].payload.stream.flags, 0u);
  EXPECT_EQ(created[1].payload.stream.flags, kStreamBlocking);
  EXPECT_EQ(created[2].payload.stream.flags, kStreamBlocking | kStreamLegacy);
  EXPECT_EQ(created[3].payload.stream.flags, 0u);
  EXPECT_EQ(created[3].payload.stream.handle, 0x6000u);

  std::vector<WorkPayload> work;
  for (const Record& record : file.records) {
    if (kCalls[record.call].payload == PayloadKind::kStreamWork)
      work.push_back(record.payload.work);
  }
  const std::vector<WorkPayload> expected = {
      {one, WorkKind::kKernels, 1, 0, 0},
      {two, WorkKind::kKernels, 1, 0, 0},
      {one, WorkKind::kEventRecord, 1, 0x5000, 0},
      {one, WorkKind::kKernels, 2, 0, 0},
      {two, WorkKind::kEventWait, 2, 0x5000, 0},
      {two, WorkKind::kHostFunction, 3, 0, 0},
      {two, WorkKind::kKernels, 4, 0, 0},
      {created[2].payload.stream.stream, WorkKind::kKernels, 1, 0, 0},
      {created[3].payload.stream.stream, WorkKind::kKernels, 1, 0, 0}};
  ASSERT_EQ(work.size(), expected.size());
  for (size_t i = 0; i < work.size(); ++i) {
    EXPECT_EQ(std::memcmp(&work[i], &expected[i], sizeof(WorkPayload)), 0) << i;
  }
  EXPECT_EQ(file.Of(kCall_cudaStreamDestroy)[0].payload.stream.stream, two);
}

TEST(Shim, PollingIsState) {
  const RingFile polling = RunOne("polls");
  EXPECT_EQ(polling.threads[0].poll_object, 0x5000u);
  EXPECT_EQ(polling.threads[0].poll_count, 120u);  // the launch between them began anew
  EXPECT_EQ(polling.threads[0].poll_call, kCall_cudaEventQuery);
  EXPECT_NE(polling.threads[0].poll_since_ticks, 0u);
  EXPECT_TRUE(polling.Of(kCall_cudaEventQuery).empty());
  EXPECT_EQ(RunOne("polls-end").threads[0].poll_object, 0u);
}

TEST(Shim, NestedCallsArePartOfTheOutermost) {
  const RingFile file = RunOne("nested");
  EXPECT_EQ(file.NcclCalls(), 3u);
  EXPECT_EQ(file.Of(kCall_ncclBcast).size(), 2u);
  EXPECT_TRUE(file.Of(kCall_ncclBroadcast).empty());
}

TEST(Shim, BlockedThreadIsReadableAliveAndKilled) {
  RingFolder folder;
  Job job("blocked", folder.path());
  ASSERT_EQ(job.Line(), "ready");
  const auto paths = RingPaths(folder.path());
  ASSERT_EQ(paths.size(), 1u);
  LiveRing live(paths[0]);
  ASSERT_TRUE(LiveRing::Until([&] {  // and has written all of it: the sequence lock is even
    const ThreadSlot& slot = live.thread(0);
    return __atomic_load_n(&slot.call, __ATOMIC_ACQUIRE) == kCall_cudaStreamSynchronize &&
           __atomic_load_n(&slot.seq, __ATOMIC_ACQUIRE) % 2 == 0;
  }));
  EXPECT_EQ(live.thread(0).tid, static_cast<uint32_t>(job.pid()));
  EXPECT_EQ(live.thread(0).entered, live.thread(0).left + 1);
  EXPECT_NE(live.thread(0).call_site, 0u);
  EXPECT_TRUE(live.Round());
  EXPECT_TRUE(live.Round());
  job.Kill();
  EXPECT_EQ(job.Wait(), 1000 + SIGKILL);
  const RingFile dead = ReadRing(paths[0]);
  ASSERT_FALSE(dead.records.empty());
  EXPECT_EQ(dead.records.back().call, kCall_cudaStreamSynchronize);
  EXPECT_EQ(dead.records.back().kind, RecordKind::kBegin);
  EXPECT_EQ(dead.records.back().payload.host_wait.ordinal, 1u);
  EXPECT_EQ(dead.threads[0].call_order, dead.records.back().order);
}

TEST(Shim, ThreadsHaveRingsOfTheirOwn) {
  const RingFile file = RunOne("threads");
  EXPECT_EQ(file.header.lost_records, 0u);
  EXPECT_EQ(file.threads.size(), 9u);
  EXPECT_EQ(file.Of(kCall_ncclSend).size(), 2u * 8 * 200);
  EXPECT_EQ(file.header.order, file.records.back().order);
  EXPECT_EQ(file.records.size(), file.header.order);
}

TEST(Shim, UncollectedSlotsAreNotTakenOver) {
  const RingFile file = RunOne("many-threads");
  EXPECT_EQ(file.threads.size(), kMaxThreads);
  // Those with a ring keep their one record (and the first the stream's); the rest is counted.
  EXPECT_GT(file.records.size(), 50u);
  EXPECT_EQ(file.Of(kCall_cudaEventRecord).size() + file.header.lost_records, 400u);
}

TEST(Shim, CollectedSlotsOfEndedThreadsAreReused) {
  RingFolder folder;
  Job job("collected-threads", folder.path());
  std::unique_ptr<LiveRing> live;
  for (int batch = 0; batch < 20; ++batch) {
    ASSERT_EQ(job.Line(), "ready");
    if (live == nullptr) live = std::make_unique<LiveRing>(RingPaths(folder.path()).at(0));
    for (uint32_t i = 0; i < live->header().threads_used; ++i) {  // as the collector does
      ThreadSlot& slot = live->thread(static_cast<int>(i));
      __atomic_store_n(&slot.ring_tail, __atomic_load_n(&slot.ring_head, __ATOMIC_ACQUIRE),
                       __ATOMIC_RELEASE);
    }
    job.Go();
  }
  EXPECT_EQ(job.Wait(), 0);
  EXPECT_LT(live->header().threads_used, kMaxThreads);
  EXPECT_EQ(live->header().lost_records, 0u);
  uint64_t generations = 0;
  for (uint32_t i = 0; i < live->header().threads_used; ++i) {
    generations += live->thread(static_cast<int>(i)).generation;
  }
  EXPECT_GE(generations + live->header().threads_used, 400u);
}

TEST(Shim, ForkedChildMakesItsOwnRing) {
  const Outcome outcome = RunAll("fork");
  EXPECT_EQ(outcome.exit_code, 0);
  ASSERT_EQ(outcome.rings.size(), 2u);
  const bool first_is_parent = !outcome.rings[0].comms.empty();
  const RingFile& parent = outcome.rings[first_is_parent ? 0 : 1];
  const RingFile& child = outcome.rings[first_is_parent ? 1 : 0];
  EXPECT_NE(parent.header.pid, child.header.pid);
  EXPECT_EQ(parent.Of(kCall_ncclAllReduce).size(), 4u);
  EXPECT_TRUE(parent.Of(kCall_cudaDeviceSynchronize).empty());
  EXPECT_EQ(child.Of(kCall_cudaDeviceSynchronize).size(), 2u);
  EXPECT_EQ(child.Of(kCall_cudaLaunchKernel).size(), 1u);
  EXPECT_TRUE(child.comms.empty());
  EXPECT_EQ(child.NcclCalls(), 0u);
  EXPECT_EQ(parent.header.markers_enabled, 1u);
  EXPECT_EQ(child.header.markers_enabled, 1u);
}

TEST(Shim, ExecLeavesTheEarlierRingReadable) {
  const Outcome outcome = RunAll("exec");
  EXPECT_EQ(outcome.exit_code, 0);
  ASSERT_EQ(outcome.rings.size(), 2u);
  EXPECT_EQ(outcome.rings[0].header.pid, outcome.rings[1].header.pid);
  EXPECT_EQ(outcome.rings[0].NcclCalls() + outcome.rings[1].NcclCalls(), 12u);
}

TEST(Shim, FullRingCountsWhatItLoses) {
  const RingFile file = RunOne("many", {{"GORDIAN_RING_SLOTS", "64"}});
  EXPECT_EQ(file.records.size(), 64u);
  EXPECT_EQ(file.header.lost_records, 2u * 1000 + 2 + 1 - 64);
  EXPECT_EQ(file.threads[0].lost_records, file.header.lost_records);
  EXPECT_EQ(file.NcclCalls(), 1001u);
  // The state block does not depend on what was lost.
  EXPECT_EQ(file.comms[0].next_sequence, 1000u);
  EXPECT_EQ(file.streams[0].enqueued, 1000u);
}

TEST(Shim, SilentWithoutAPlaceForRings) {
  for (const std::string folder : {"", "/nonexistent/folder", "/proc", "/dev/null"}) {
    Job job("operations", folder);
    EXPECT_EQ(job.Wait(), 0) << folder;
  }
  RingFolder folder;  // a name that is too long for any path
  Job job("operations", folder.path() + "/" + std::string(600, 'x'));
  EXPECT_EQ(job.Wait(), 0);
  EXPECT_TRUE(RingPaths(folder.path()).empty());
}

TEST(Shim, SilentWhenTheFileSystemIsFull) {
  RingFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=100k") != 0) {
    GTEST_SKIP() << "no right to mount a small file system";
  }
  {
    Job job("operations", folder.path());
    EXPECT_EQ(job.Wait(), 0);
    EXPECT_TRUE(RingPaths(folder.path()).empty());
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  umount(folder.path().c_str());
  // Room for the state block, but not for a ring.
  ASSERT_EQ(mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1200k"), 0);
  {
    Job job("operations", folder.path());
    EXPECT_EQ(job.Wait(), 0);
    const auto paths = RingPaths(folder.path());
    ASSERT_EQ(paths.size(), 1u);
    const RingFile file = ReadRing(paths[0]);
    EXPECT_TRUE(file.records.empty());
    EXPECT_GT(file.header.lost_records, 0u);
    EXPECT_EQ(file.comms[0].next_sequence, 3u);
  }
  umount(folder.path().c_str());
}

TEST(Shim, LaunchersMapNothing) {
  const Outcome outcome = RunAll("nothing");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.rings.empty());
}

TEST(Shim, MoreHandlesThanSlots) {
  RingFolder folder;
  Job job("many-handles", folder.path());
  for (int batch = 0; batch < 10; ++batch) {
    ASSERT_EQ(job.Line(), "ready");
    // The slots of destroyed streams are free once the watcher has seen their markers done.
    ASSERT_TRUE(LiveRing(RingPaths(folder.path()).at(0)).Round());
    job.Go();
  }
  EXPECT_EQ(job.Wait(), 0);
  const RingFile churned = ReadRing(RingPaths(folder.path()).at(0));
  EXPECT_EQ(churned.header.lost_streams, 0u);
  EXPECT_EQ(churned.header.lost_comms, 0u);
  EXPECT_EQ(churned.header.streams_used, kMaxStreams);
  EXPECT_EQ(churned.header.comms_used, kMaxComms);
  const RingFile live = RunOne("live-handles");
  EXPECT_GE(live.header.lost_streams, 3000u - kMaxStreams);
  EXPECT_GE(live.header.lost_comms, 3000u - kMaxComms);
}

TEST(Shim, MarkersShowWhatIsDone) {
  RingFolder folder;
  Job job("markers", folder.path());
  ASSERT_EQ(job.Line(), "ready");
  LiveRing live(RingPaths(folder.path()).at(0));
  ASSERT_TRUE(live.Round());
  EXPECT_EQ(live.header().markers_enabled, 1u);
  EXPECT_EQ(live.stream(0).enqueued, 4u);
  EXPECT_EQ(live.stream(0).done, 3u);
  EXPECT_EQ(live.stream(0).head, 4u);
  EXPECT_EQ(live.header().lost_markers, 0u);
  job.Go();
  ASSERT_EQ(job.Line(), "ready");
  ASSERT_TRUE(live.Round());
  // A burst of 2,000 has markers for some hundreds; its last operation is among them.
  EXPECT_EQ(live.stream(0).enqueued, 2004u);
  EXPECT_EQ(live.stream(0).done, 2004u);
  EXPECT_EQ(live.stream(0).head, 2004u);
  EXPECT_GE(live.header().lost_markers, 1400u);
  EXPECT_LT(live.header().lost_markers, 2000u);
}

TEST(Shim, StreamsAfterADeviceResetHaveMarkers) {
  RingFolder folder;
  Job job("device-reset", folder.path());
  ASSERT_EQ(job.Line(), "ready");
  LiveRing live(RingPaths(folder.path()).at(0));
  const auto done = [&] {
    int streams = 0;
    for (int i = 0; i < static_cast<int>(kMaxStreams); ++i) {
      if (live.stream(i).done != 0) ++streams;
    }
    return streams;
  };
  ASSERT_TRUE(live.Round());
  EXPECT_EQ(live.header().streams_used, kMaxStreams);
  EXPECT_EQ(live.header().lost_streams, 0u);
  EXPECT_EQ(done(), 0);
  job.Go();
  ASSERT_EQ(job.Line(), "ready");
  ASSERT_TRUE(live.Round());
  EXPECT_EQ(done(), 10);
  EXPECT_EQ(live.header().lost_markers, 0u);
}

TEST(Shim, MarkersCanBeTurnedOff) {
  const RingFile file = RunOne("operations", {{"GORDIAN_MARKERS", "0"}});
  EXPECT_EQ(file.header.markers_enabled, 0u);
  EXPECT_EQ(file.streams[0].done, 0u);
  EXPECT_GT(file.streams[0].enqueued, 0u);
}

TEST(Shim, CapturedWorkIsFlaggedAndNotNumbered) {
  const RingFile file = RunOne("capture");
  const auto reduce = file.Of(kCall_ncclAllReduce);
  ASSERT_EQ(reduce.size(), 4u);
  EXPECT_EQ(reduce[0].flags & kFlagCapturing, kFlagCapturing);
  EXPECT_EQ(reduce[1].payload.end.ordinal, 0u);
  EXPECT_EQ(reduce[2].flags & kFlagCapturing, 0);
  EXPECT_EQ(reduce[2].payload.operation.sequence, 0u);
  EXPECT_EQ(reduce[3].payload.end.ordinal, 1u);
  EXPECT_TRUE(file.Of(kCall_cudaLaunchKernel).empty());
}

TEST(Shim, NonBlockingCommunicators) {
  RingFolder folder;
  Job job("non-blocking", folder.path());
  ASSERT_EQ(job.Line(), "initing");
  LiveRing live(RingPaths(folder.path()).at(0));
  EXPECT_EQ(live.comm(0).state, ring::CommState::kIniting);
  job.Go();
  EXPECT_EQ(job.Wait(), 0);
  EXPECT_EQ(live.comm(0).state, ring::CommState::kReady);
  const RingFile file = ReadRing(RingPaths(folder.path()).at(0));
  const auto reduce = file.Of(kCall_ncclAllReduce);
  ASSERT_EQ(reduce.size(), 2u);
  EXPECT_EQ(reduce[0].flags & kFlagNonBlocking, kFlagNonBlocking);
  EXPECT_EQ(reduce[1].payload.end.result, 7);
  EXPECT_EQ(reduce[1].payload.end.ordinal, 1u);
  EXPECT_EQ(live.header().lost_markers, 0u);
  EXPECT_EQ(RunOne("non-blocking-unasked").header.lost_markers, 0u);
}

TEST(Shim, WatcherDoesNotKeepAProcessAlive) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(RunAll("main-thread-exits").exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace gordian::test
