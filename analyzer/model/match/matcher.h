// Operations across ranks: communicators of the job, the instances of their collectives, transfers
// between pairs of ranks, calls that make communicators, and the mismatches among them.
//
// Pure data with O(log n) updates. An instance lives until all its members are done.
#ifndef GORDIAN_ANALYZER_MODEL_MATCH_MATCHER_H_
#define GORDIAN_ANALYZER_MODEL_MATCH_MATCHER_H_

#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/collective.h"
#include "analyzer/model/facts/event.h"
#include "analyzer/model/match/tallies.h"

namespace gordian::model {

using LaunchId = uint64_t;  // one launch of NCCL at one process; unique in the job; 0: none

bool MakesCommunicator(Call);
bool IsSignal(Call);  // RMA

enum class SlotState : uint8_t { kNone, kCalled, kDone, kAborted };

// A member's share of an operation.
struct MemberSlot {
  SlotState state = SlotState::kNone;
  bool accepted = false;  // NCCL took the call, or the thread was seen blocked inside it
  LaunchId launch = 0;
  uint64_t order = 0;  // of the call, in its process; of the launch for what was captured
  uint32_t place = 0;  // within the launch of a graph
  uint64_t time_ns = 0;
  uint64_t site = 0;
  OpSignature signature;

  bool Called() const { return state == SlotState::kCalled || state == SlotState::kDone; }
};

// Values of `mismatch` that are no index into Matcher::mismatches().
inline constexpr int kAgrees = -1;           // as far as is known
inline constexpr int kFurtherMismatch = -2;  // counted in the communicator's first one

struct Instance {
  std::vector<MemberSlot> members;  // by rank
  int called = 0;
  int done = 0;
  int mismatch = kAgrees;  // or index into Matcher::mismatches()
};

// A collective that all members are done with, and agreed on.
struct FinishedCall {
  uint64_t sequence = 0;
  OpSignature signature;
};
// The matcher keeps the last so many of a communicator's finished collectives.
inline constexpr size_t kFinishedKept = 32;

struct Transfer {
  MemberSlot send, receive;
  int mismatch = kAgrees;
};

// W16. What one member signals to another on one index and context.
struct SignalKey {
  int source = -1;
  int destination = -1;
  uint64_t channel = 0;  // SignalChannelOf()
  auto operator<=>(const SignalKey&) const = default;
};
// A call that sends, or waits for, so many of them.
struct SignalCall {
  LaunchId launch = 0;
  uint64_t count = 0;
  uint32_t number = 0;  // SignalUse::number
};
// Of one kind, of one member: sent, or waited for.
struct SignalCalls {
  uint64_t done = 0;             // by operations that are done; for waits: taken by them
  std::deque<SignalCall> calls;  // not known to be done, in the order of the calls
  uint32_t done_to = 0;          // the number behind the highest that is known to be done
  uint64_t told = 0;             // how many the state block accounted for
};
struct SignalLine {
  SignalCalls sent, waited;
};
// Blocks give numbers by their low 32 bits. How far a is ahead of b.
inline int32_t NumberAhead(uint32_t a, uint64_t b) {
  return static_cast<int32_t>(a - static_cast<uint32_t>(b));
}

struct CommMember {
  bool known = false;
  ProcessId process = 0;
  CommId comm = 0;
  int device = -1;
  uint64_t made_at = 0;    // site of the call that made it; 0: not seen
  bool left = false;       // began to destroy it: joins nothing any more
  bool aborted = false;    // or revoked it
  bool finalized = false;  // others that destroy it do not wait for this one
  bool forgotten = false;  // transfers with it were let go of before it was seen
  uint64_t left_ns = 0;
  uint64_t next_sequence = 0;  // collectives that it has called
};

// New ones come at the end, and go nearly in their order: both ends of a deque are quick, its
// middle need not be.
using Instances =
    boost::container::flat_map<uint64_t, Instance, std::less<uint64_t>,
                               boost::container::deque<std::pair<uint64_t, Instance>>>;

struct Communicator {
  CommUid uid = 0;
  int color = 0;
  int nranks = 0;
  std::string name;
  bool host = false;    // torch.distributed carries its operations out without NCCL (W20)
  bool opaque = false;  // some of its operations cannot be followed (captured into graphs, ...)
  std::vector<CommMember> members;                                        // by rank
  Instances instances;                                                    // unfinished, by sequence
  std::map<std::pair<int, int>, std::map<uint64_t, Transfer>> transfers;  // (source, destination)
  std::vector<FinishedCall> finished;    // the last kFinishedKept, in any order
  size_t oldest_finished = 0;            // of them, once there are so many
  std::vector<FinishedCall> to_compare;  // with the numbers of the job's first mismatches
  std::map<SignalKey, SignalLine> signals;
  bool signals_unseen = false;  // graphs send or take some
  bool any_source = false;      // some member has received from any: numbers pair no transfers
  bool unsure = false;          // numbers of some member may be wrong: no mismatch is one
  // The earliest of each, as indices into Matcher::mismatches(); -1: none. Operators alone have
  // their own: they make wrong data and hold nothing up, and must not hide what does.
  int collective_mismatch = -1;
  int operator_mismatch = -1;
  int transfer_mismatch = -1;
};

// Those that the member of this rank sends to the peer, or waits for from it.
SignalCalls& SignalsOf(Communicator& comm, int rank, bool waits, int peer, uint64_t channel);

enum class PartKind : uint8_t { kCollective, kSend, kReceive };
constexpr PartKind PartKindOf(Call operation) {
  return operation == Call::kSend   ? PartKind::kSend
         : operation == Call::kRecv ? PartKind::kReceive
                                    : PartKind::kCollective;
}

// Names a member's share of one operation.
struct PartRef {
  PartKind kind = PartKind::kCollective;
  int comm = -1;  // index into Matcher::comms()
  int rank = -1;
  int peer = -1;  // transfers
  uint64_t sequence = 0;
};

struct MismatchMember {
  int rank = -1;
  ProcessId process = 0;
  uint64_t site = 0;
  OpSignature signature;
};

// Calls of a member from a mismatch on that are kept.
inline constexpr uint64_t kCallsKept = 16;

struct Mismatch {
  int comm = -1;
  PartKind kind = PartKind::kCollective;
  uint64_t sequence = 0;
  uint32_t bits = 0;
  uint64_t found_ns = 0;
  int further = 0;         // on the same communicator, of later calls
  bool completed = false;  // by all members
  std::vector<MismatchMember> members;
  int expected_members = 0;
  // Of collectives, by rank and sequence: what each has called from this one on.
  std::map<std::pair<int, uint64_t>, OpSignature> calls;
};

// The members that agree, camp by camp, the largest first; of a transfer each end by itself. Valid
// as long as the mismatch.
std::vector<std::vector<const MismatchMember*>> Camps(const Mismatch&);

struct InitMember {
  bool called = false;
  bool done = false;
  ProcessId process = 0;
  ThreadId thread = 0;
  CommId comm = 0;
  int device = -1;
  uint64_t order = 0;
  uint64_t time_ns = 0;
  uint64_t site = 0;
};

// What one caller of ncclCommInitRank passed.
struct InitClaim {
  ProcessId process = 0;
  CommId comm = 0;
  int device = -1;
  int rank = -1;
  int nranks = 0;
  uint64_t site = 0;
  uint64_t time_ns = 0;
  bool returned = false;  // the call has failed: its caller waits no more
};

// A call that all members of a communicator make and wait in: one that makes communicators (for a
// child: over the parent's members), registers a window, or destroys (then `parent` is that one).
struct InitCall {
  CommUid uid = 0;
  Call call = Call::kCommInit;
  int parent = -1;                  // index of the parent communicator
  int comm = -1;                    // index of what it makes; -1 for a child
  bool host = false;                // of torch.distributed
  bool members_known = true;        // false: some of `members` need not call (shrink)
  uint64_t ordinal = 0;             // of those that all members of a communicator make
  std::vector<InitMember> members;  // by rank, in the parent for a child
  int called = 0;
  int done = 0;
  std::vector<InitClaim> claims;  // of ncclCommInitRank
  bool any_returned = false;      // of the claims
  bool claims_clash = false;      // two of them did: Contradiction() says whether they still do
  bool made_before = false;       // all members had made the communicator of this id already
};

// When a caller came whose rank another one had passed, or that passed another number of ranks. NCCL
// makes no communicator of them, and tells none (measured with 2.28.9). 0: they agree, or none of
// them waits.
uint64_t Contradiction(const InitCall&);

// Names the ordinal-th call of its kind that all members of a communicator make and wait in (W11).
CommUid MeetingUid(const Communicator& comm, Call call, uint64_t ordinal);

class Matcher {
 public:
  // Finds or makes a communicator; nranks may be 0 when not known yet.
  int Comm(CommUid uid, int color, int nranks);
  // A communicator that some of its members know by another identity: what is known of the one
  // counts for the other from here on. Gives the indices that it had and has now; -1: it had none.
  std::pair<int, int> Unite(CommUid uid, CommUid same);
  CommUid Resolve(CommUid uid) const;
  bool HasOtherName(CommUid uid) const;
  // A call of ncclCommGrow that the process has made under a name that no member has yet said to be,
  // or not to be, another name of this one: the member that knows both may be still to come.
  bool MayHaveCalled(const InitCall&, ProcessId) const;
  // `site`: of the call that makes the communicator; 0: not seen.
  void SetMember(int comm, int rank, ProcessId, CommId, int device, uint64_t site = 0);

  void Post(const PartRef&, const MemberSlot&);
  // The call was taken: its arguments count. Finds mismatches.
  void Accept(const PartRef&, uint64_t now_ns);
  void Withdraw(const PartRef&);  // refused: it never happened
  void Done(const PartRef&);
  void Abort(const PartRef&);

  // The slot that a part is in, or its counterpart's; null when gone (done everywhere). An Instance
  // is valid until the next operation on its communicator is posted or done, a slot until its
  // instance is gone. `instance`: that the slot of a collective is in.
  MemberSlot* Slot(const PartRef&, Instance** instance = nullptr);
  const MemberSlot* Slot(const PartRef& part) const {
    return const_cast<Matcher*>(this)->Slot(part);
  }
  Instance* FindInstance(int comm, uint64_t sequence);
  Transfer* FindTransfer(const PartRef&);
  const Instance* FindInstance(int comm, uint64_t sequence) const {
    return const_cast<Matcher*>(this)->FindInstance(comm, sequence);
  }
  const Transfer* FindTransfer(const PartRef& part) const {
    return const_cast<Matcher*>(this)->FindTransfer(part);
  }

  // What the members have called as this collective: all of them, or as many as have, two at least,
  // that agree. Null: they do not, or it was done too long ago. Valid until the next operation on the
  // communicator is posted or done.
  const OpSignature* AgreedCall(int comm, uint64_t sequence) const;

  InitCall& Init(CommUid uid, Call call, int parent, int nranks);
  InitCall* FindInit(CommUid uid);
  const InitCall* FindInit(CommUid uid) const { return const_cast<Matcher*>(this)->FindInit(uid); }
  void InitDone(CommUid uid, int rank);
  void InitWithdraw(CommUid uid, int rank);
  // Notes what a caller passed, before NoteCaller makes it a member.
  static void InitClaimed(InitCall*, const InitClaim&);
  // A member that is out of the call begins it once more: all others are out of the first one, too.
  bool InitBeginsAgain(CommUid uid, int rank, ProcessId);
  // The call with this claim has failed.
  void InitFailed(CommUid uid, ProcessId, CommId);

  const std::vector<Communicator>& comms() const { return comms_; }
  std::vector<Communicator>& comms() { return comms_; }
  const std::vector<Mismatch>& mismatches() const { return mismatches_; }
  const std::map<CommUid, InitCall>& inits() const { return inits_; }

  // From state blocks, where records were lost (state_merge.h). Of the operations with the numbers
  // [from, to): those that others hold unfinished and that this member is not known to have called.
  std::vector<uint64_t> Unfinished(const PartRef& member, uint64_t from, uint64_t to) const;
  // Lets go of collectives that every member has called, by its own account, and that no member known
  // to have called them has left unfinished.
  void RetireLost(int comm);
  Tallies& tallies() { return tallies_; }
  const Tallies& tallies() const { return tallies_; }

  // Instances and transfers held: what memory grows with.
  size_t Held() const;

  // How many processes there are, with which the places for members that are held at once may grow.
  void NoteProcesses(size_t count) { processes_ = count; }
  // Some communicator or operation had more members than there was room for, and is not followed.
  bool beyond() const { return beyond_; }

 private:
  bool HaveRoom(int members) const;
  void Leave(size_t members);  // these places are free again
  void EraseInit(CommUid uid);
  void MoveInit(CommUid from, CommUid to, int parent, int comm);
  void MoveOperations(int from, int to);  // of one communicator that had two indices
  void Keep(int mismatch, int rank, uint64_t sequence, const OpSignature&);
  void CheckInstance(int comm, uint64_t sequence, Instance&, int rank, uint64_t now_ns);
  void CheckTransfer(const PartRef&, Transfer&, uint64_t now_ns);
  void KeepFinished(Communicator&, uint64_t sequence, const Instance&) const;
  void MaybeRetire(Communicator&, uint64_t sequence);
  void Retire(Communicator&, Instances::iterator);
  void MaybeRetireTransfer(const PartRef&);

  std::vector<Communicator> comms_;
  std::map<std::pair<CommUid, int>, int> by_uid_;
  std::vector<Mismatch> mismatches_;
  std::map<CommUid, InitCall> inits_;
  std::map<CommUid, CommUid> same_;  // grown communicators
  Tallies tallies_;
  // Of instances that are over, cleared, for later ones.
  std::vector<std::vector<MemberSlot>> spare_members_;
  size_t processes_ = 0;
  size_t places_ = 0;  // for members, in communicators, their operations and calls
  bool beyond_ = false;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_MATCH_MATCHER_H_
