// The rules of waiting, one a file (w04_host_wait.cc and so on), numbered as in docs/wait-model.md.
//
// Each is a free function: it reads the facts of a round through a WaitView and adds to WaitNodes
// what one thing waits for. A function that returns a node returns what stands for "this is done",
// for others to wait for. WaitForGraph calls them; rules call each other where one is defined by
// another.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_RULES_RULES_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_RULES_RULES_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/waits/wait_nodes.h"
#include "analyzer/model/waits/wait_view.h"

namespace gordian::model::rules {

// W1 of the launch's part with this index, a collective.
void CollectiveData(const WaitView&, const Launch& launch, int part, WaitNodes*);
// W1p of the launch's part with this index, a send or a receive.
void TransferData(const WaitView&, const Launch& launch, int part, WaitNodes*);
// The start of another member's part: by W5 if it has not been called, by W14 if it cannot be.
uint32_t PartStart(const WaitView&, const MemberSlot&, const PartRef&, WaitNodes*);

// W2: all work on the stream up to and with this place is done.
uint32_t DoneUpTo(const Process&, StreamPosition, WaitNodes*);
// W2 of what stands at this place of its stream.
void StreamOrder(const Process&, StreamPosition, uint32_t node, WaitNodes*);

// W3
void EventWait(const Process&, const WorkItem&, uint32_t node, WaitNodes*);

// W4 of a thread in a call that synchronises, frees or copies.
void HostWait(const WaitView&, const Process&, const OpenCall&, uint32_t thread, WaitNodes*);
// W4p
void Polling(const WaitView&, const Process&, const ThreadState&, uint32_t thread, WaitNodes*);

// W5. A call that a member has not made.
struct MissingCall {
  int comm = -1;
  int rank = -1;
  const PartRef* part = nullptr;   // of which operation, if that is known
  const InitCall* init = nullptr;  // of calls that all members make
  bool proven = false;             // known not to have been made, whatever records were lost
};
uint32_t NotCalled(const WaitView&, const MissingCall&, WaitNodes*);
// ... and that any thread of the process could make.
uint32_t ProcessNotCalled(const WaitView&, ProcessId, bool proven, WaitNodes*);

// W5g of a launch that its thread has not enqueued yet.
void OpenGroup(const Launch& launch, WaitNodes*);
// W5g of a part that was called in a group: its thread gets to GroupEnd.
uint32_t GroupEndReached(const WaitView&, const Launch& launch, WaitNodes*);

// W6, under Conjecture::kSharedQueue.
void SharedQueue(const Process&, const Launch& launch, WaitNodes*);
// W6, under Conjecture::kNoProcessors: of all launches.
void Processors(const WaitView&, WaitNodes*);

// W7
void FusedGroup(const WaitView&, const Process&, const Launch& launch, WaitNodes*);
// W7 seen from a place on a stream, which is done when the launches that use it are.
void FusedGroupItem(const WorkItem&, uint32_t item, WaitNodes*);

// W8
void CommunicatorOrder(const Process&, const Launch& launch, WaitNodes*);
// W8i
void LaunchOrder(const Launch& launch, WaitNodes*);

// W9: what the program itself has put on its streams is done.
uint32_t ProgramWork(const Process&, WaitNodes*);

// W10
void MemoryWait(const WaitView&, const Process&, const StreamQueue&, const WorkItem& wait,
                uint32_t item, WaitNodes*);

// W11 of a thread in a call that all members make; nothing if the call is not known.
void CommunicatorCall(const WaitView&, CommUid call, Reason, uint32_t thread, WaitNodes*);
// W11 of a thread in ncclCommWindowRegister, or of W11d.
void MeetMembers(const WaitView&, const OpenCall&, uint32_t thread, WaitNodes*);
// W11d: of a thread that waits for its process's work on the communicator.
void OwnWork(const WaitView&, const Process&, CommId, Reason, uint32_t thread, WaitNodes*);
// W11d of a thread that finalizes or destroys one.
void Destroy(const WaitView&, const Process&, const OpenCall&, uint32_t thread, WaitNodes*);

// W12
void GraphOrder(const Launch& launch, WaitNodes*);

// W13: what is at this place of another stream is done first.
void LegacyStream(const Process&, StreamPosition, uint32_t node, WaitNodes*);

// W14 of a process that has ended (true: it waits for nothing else any more) or is stopped.
bool EndedOrStopped(const Process&, Reason, uint32_t node, WaitNodes*);
// W14 of a member that has aborted or destroyed the communicator; kNoNode: it has done neither.
uint32_t LeftCommunicator(const CommMember&, int comm, WaitNodes*);

// W15 of a thread whose call, or group, launches these.
void FirstUse(const WaitView&, const Process&, const OpenCall&, const std::vector<LaunchId>&,
              uint32_t thread, WaitNodes*);
// W15 of a launch that its non-blocking communicator connects for, after the call has returned.
void Connecting(const WaitView&, const Launch&, uint32_t node, WaitNodes*);
// W15c
void CapturedFirstUse(const WaitView&, const Process&, const OpenCall&, const Thread&,
                      uint32_t thread, WaitNodes*);

// W16
void Signals(const WaitView&, const Launch& wait, WaitNodes*);

// W17. False: the launch is none that its process says it has begun early.
bool BegunBeforeTurn(const WaitView&, const Process&, const Launch& launch, WaitNodes*);
// W18. False: the launch is none that a device may have begun early.
bool MayBeginBeforeTurn(const Process&, const Launch& launch, WaitNodes*);

// W19 of a thread outside of NCCL and CUDA: true if only another thread of its process wakes it.
bool OnlyAThreadWakes(const Process&, const ThreadState&);
// W19: a thread of the process that can wake others runs.
uint32_t Woken(const WaitView&, const Process&, WaitNodes*);
// ... or one of the program's host functions, each of which `node` then waits for.
void HostFunctions(const Process&, uint32_t node, WaitNodes*);
// Conjecture::kBystanders: `node`, a running thread, polls for what a host function answers. Graphs
// may hold host functions, too, but to suppose that of each would blame threads that merely run.
void KnownHostFunctions(const Process&, uint32_t node, WaitNodes*);

// W20 of an operation that torch.distributed carries out on the host.
void HostOperation(const WaitView&, const Launch& launch, WaitNodes*);
// W21 of a thread that waits for such an operation.
void OperationWait(const OpenCall&, uint32_t thread, WaitNodes*);
// W22 of a thread that waits for a key of a store.
void StoreWait(const WaitView&, const OpenCall&, uint32_t thread, WaitNodes*);
// W23 of a thread of gloo's: whether it carries an operation out.
bool CarriesOut(const ThreadState&);
// ... so many of the process do; the end of any of its operations may have one of them call.
void OperationsEnd(const Process&, size_t workers, uint32_t node, WaitNodes*);

// W24 of a thread of PyTorch's: whether it watches operations of NCCL.
bool Watches(const ThreadState&);
// ... the end of any operation of the process may have it call, or wake a thread that does.
void WatchedEnd(const WaitView&, const Process&, uint32_t node, WaitNodes*);

}  // namespace gordian::model::rules

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_RULES_RULES_H_
