// Writes schedules in few words.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_SCHEDULE_BUILDER_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_SCHEDULE_BUILDER_H_

#include <string>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer::testing {

// Calls of one thread, one after the other. Streams, events and graphs are there once they are
// named.
class Calls {
 public:
  Calls(Schedule* schedule, int rank, int thread, OpId* next)
      : schedule_(schedule), rank_(rank), thread_(thread), next_(next) {}

  Calls& Do(OpKind kind, int comm, int stream = 0, uint64_t count = 1024, int root_or_peer = -1);
  Calls& AllReduce(int comm, int stream = 0, uint64_t count = 1024) {
    return Do(OpKind::kAllReduce, comm, stream, count);
  }
  Calls& Broadcast(int comm, int root, int stream = 0) {
    return Do(OpKind::kBroadcast, comm, stream, 1024, root);
  }
  Calls& Send(int comm, int peer, int stream = 0, uint64_t count = 1024) {
    return Do(OpKind::kSend, comm, stream, count, peer);
  }
  Calls& Recv(int comm, int peer, int stream = 0, uint64_t count = 1024) {
    return Do(OpKind::kRecv, comm, stream, count, peer);
  }
  Calls& GroupStart();
  Calls& GroupEnd();
  Calls& Init(int comm) { return Add({.kind = OpKind::kCommInit, .comm = comm}); }
  Calls& Split(int parent, int comm, int color) {
    return Add({.kind = OpKind::kCommSplit, .comm = comm, .parent = parent, .color = color});
  }
  Calls& Destroy(int comm) { return Add({.kind = OpKind::kCommDestroy, .comm = comm}); }
  Calls& Abort(int comm) { return Add({.kind = OpKind::kCommAbort, .comm = comm}); }
  Calls& Window(int comm) { return Add({.kind = OpKind::kWindowRegister, .comm = comm}); }
  Calls& Record(int event, int stream) {
    return Add({.kind = OpKind::kEventRecord, .stream = stream, .event = event});
  }
  Calls& Wait(int event, int stream) {
    return Add({.kind = OpKind::kStreamWaitEvent, .stream = stream, .event = event});
  }
  Calls& Kernel(int stream = 0) { return Add({.kind = OpKind::kKernel, .stream = stream}); }
  Calls& CaptureBegin(int graph, int stream);
  Calls& CaptureEnd(int graph, int stream);
  Calls& Launch(int graph, int stream) {
    return Add({.kind = OpKind::kGraphLaunch, .stream = stream, .graph = graph});
  }
  Calls& Sync(int stream = 0) { return Add({.kind = OpKind::kStreamSync, .stream = stream}); }
  Calls& EventSync(int event) { return Add({.kind = OpKind::kEventSync, .event = event}); }
  Calls& DeviceSync() { return Add({.kind = OpKind::kDeviceSync}); }
  Calls& Free() { return Add({.kind = OpKind::kFree}); }
  Calls& Poll(int event) { return Add({.kind = OpKind::kPoll, .event = event}); }
  Calls& Sleep() { return Add({.kind = OpKind::kSleep}); }
  Calls& Spin() { return Add({.kind = OpKind::kSpin}); }
  Calls& Exit(int code) { return Add({.kind = OpKind::kExit, .exit_code = code}); }
  Calls& Kill(int signal) { return Add({.kind = OpKind::kKill, .exit_code = signal}); }
  Calls& Stop() { return Add({.kind = OpKind::kStop}); }
  // The last call of all: it waits there and did not come back.
  Calls& Stands();
  // The last call waits until the one with that id has returned, or was called.
  Calls& After(OpId id, Gate::Moment moment = Gate::Moment::kReturned);
  OpId last() const;
  Calls& Add(Op op);  // anything else

 private:
  std::vector<Op>& ops() const;

  Schedule* const schedule_;
  const int rank_, thread_;
  OpId* const next_;
};

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(int ranks);

  // Returns its place. Ready and connected unless it is `cold`.
  int Comm(const std::string& name, std::vector<int> members, bool cold = false);
  int UnmadeComm(const std::string& name, std::vector<int> members, int parent = -1);
  // As many more calls as one likes, behind those that are there.
  Calls On(int rank, int thread = 0);
  Schedule& schedule() { return schedule_; }
  // With the signature that the model finds; fails the test where Check() has something to say.
  Schedule Build();

 private:
  Schedule schedule_;
  OpId next_ = 1;
};

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_SCHEDULE_BUILDER_H_
