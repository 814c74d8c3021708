// What a process itself says of the operations that it called and has not finished, sent where
// records of them were lost. Plain data; proto/ring/state_block.h tells where it comes from.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_STATE_BLOCK_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_STATE_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/facts/event.h"

namespace gordian::model {

// An operation's place on a stream.
struct StreamPlace {
  StreamId stream = 0;
  uint64_t ordinal = 0;
};

// What the call that a thread is in was given.
struct CallDetail {
  CommId comm = 0;
  StreamId stream = 0;
  uint64_t count = 0;
  uint64_t sequence = 0;
  int32_t root_or_peer = -1;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  WaitKind wait = WaitKind::kNoWait;
  uint8_t flags = 0;
  int32_t device = -1;
  std::vector<StreamPlace> covered;  // unfinished operations that a host wait covers
};

struct CalledSignature {
  Call call = Call::kOther;
  uint64_t count = 0;  // of a transfer: bytes
  int32_t root = -1;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  uint64_t hash = 0;  // of all up to and with this one
  uint64_t site = 0;
};

using ring::NumberKind;

// The collectives of a communicator, the sends to or receives from one peer, or its signals on one
// channel.
struct CalledNumbers {
  CommId comm = 0;
  NumberKind kind = NumberKind::kCollective;
  int32_t peer = -1;
  bool comparable = true;  // false: hashes may differ although nothing is wrong
  bool captured = false;   // graphs take numbers that are not counted here
  bool used = false;       // some were launched: nothing is left to connect (W15)
  uint64_t open = 0;       // of `next`: called in groups that have not ended
  uint64_t next = 0;
  uint64_t hash = 0;
  int32_t color = 0;
  uint64_t windows = 0;  // registrations begun
  uint64_t channel = 0;  // of signals: SignalChannelOf()
  uint64_t first = 0;    // number of last.front()
  std::vector<CalledSignature> last;

  // How many were called and launched.
  uint64_t Launched() const { return next - (open < next ? open : next); }
};

struct PendingOperation {
  uint64_t ordinal = 0;
  uint64_t launch = 0;  // order of the call that launched it, the same for all of a group
  uint64_t site = 0;
  CommId comm = 0;
  Call call = Call::kOther;
  int32_t root_or_peer = -1;
  uint64_t sequence = 0;
  uint64_t count = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  bool in_group = false;
  bool channel_known = false;  // signals
  uint64_t channel = 0;
  struct After {  // the stream waits for `place`, `back` places in front of this operation
    StreamPlace place;
    uint32_t back = 0;
  };
  std::vector<After> after;
};

struct PendingStream {
  StreamId stream = 0;
  uint32_t flags = 0;
  int32_t device = -1;
  uint64_t handle = 0;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  bool whole = false;     // every unfinished operation is in `pending`, but for those in the gap
  uint64_t gap_last = 0;  // 0: no gap; else operations up to this ordinal may be missing
  std::vector<PendingOperation> pending;
};

struct BlockComm {
  CommId comm = 0;
  CommUid uid = 0;
  CommUid other_uid = 0;  // what other members know it by; 0: nothing else
  int32_t nranks = 0;
  int32_t rank = -1;
  int32_t device = -1;
  CommId parent = 0;
  CommState state = CommState::kUnknown;
  std::string name;
};

// Numbers were read before streams: what was counted and is not pending is done.
struct StateBlock {
  std::vector<BlockComm> comms;
  std::vector<CalledNumbers> numbers;
  std::vector<PendingStream> streams;
  bool blind = false;  // some calls left no trace in here either
  bool numbers_incomplete = false;
  bool only_work_lost = false;  // kernels and events; every other record is there
  bool signals = false;         // numbers and pending operations tell of signals

  const BlockComm* FindComm(CommId comm) const {
    for (const BlockComm& c : comms) {
      if (c.comm == comm) return &c;
    }
    return nullptr;
  }
  // Of collectives any peer will do, and only signals have a channel.
  const CalledNumbers* FindNumbers(CommId comm, NumberKind kind, int32_t peer,
                                   uint64_t channel = 0) const {
    for (const CalledNumbers& n : numbers) {
      if (n.comm == comm && n.kind == kind && (kind == NumberKind::kCollective || n.peer == peer) &&
          (!IsSignals(kind) || n.channel == channel)) {
        return &n;
      }
    }
    return nullptr;
  }
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_STATE_BLOCK_H_
