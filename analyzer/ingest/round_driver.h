// Asks all nodes for rounds and hands the merged answers to the analysis. Knows nothing of gRPC.
//
// A round begins only after the last one has ended at every node: the proof of a deadlock rests on
// that (two readings of everybody, one wholly after the other).
#ifndef GORDIAN_ANALYZER_INGEST_ROUND_DRIVER_H_
#define GORDIAN_ANALYZER_INGEST_ROUND_DRIVER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "analyzer/ingest/round_pace.h"
#include "analyzer/session/analysis.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::analyzer {

// Thread-safe. Owns one thread, from the constructor to Stop.
class RoundDriver {
 public:
  using Node = uint32_t;

  // `analysis` must outlive this object. Rounds are numbered from `first_round`: an analyzer that
  // starts again must use no number that an earlier one may have asked for, since an answer to that
  // may still be on its way.
  RoundDriver(Analysis* analysis, RoundPace pace, uint64_t first_round = 1);
  ~RoundDriver();  // Stop(), unless the owner did
  RoundDriver(const RoundDriver&) = delete;
  RoundDriver& operator=(const RoundDriver&) = delete;

  // From now on rounds include this node. `request` is called from the driver's thread and must not
  // block; it is not called any more once Leave has returned.
  using Asker = std::function<void(const v1::RoundRequest& request)>;
  void Join(Node node, Asker request);
  // A round that waited for this node only ends with this.
  void Leave(Node node);

  // A node's answer. Returns when the round has ended at all nodes and the analysis has it: what
  // the node tells afterwards is newer than the round, and must be fed after it. An answer that
  // the driver did not ask for, or that came too late, is ignored.
  void Answer(Node node, v1::Round&& round);

  // Events of this node came, which is thus on its way to an answer that it owes. If rounds were
  // slow because nothing was unfinished, that may be over.
  void Delivered(Node node);

  // No more rounds; one that has not ended at all nodes is forgotten, and no caller waits for it.
  void Stop();

  uint64_t rounds() const;   // that the analysis got
  uint64_t ignored() const;  // answers that came too late, or to no question

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  Clock::time_point Due(Clock::time_point now);
  void Request(std::unique_lock<std::mutex>& lock, Clock::time_point now);
  void EndRound(std::unique_lock<std::mutex>& lock);
  void DropSilent(Clock::time_point now);

  Analysis* const analysis_;
  const RoundPace pace_;

  mutable std::mutex mutex_;
  std::condition_variable driver_;  // wakes the driver's thread
  std::condition_variable ended_;   // wakes callers that wait for the end of a round
  std::map<Node, Asker> nodes_;
  bool stop_ = false;
  bool requesting_ = false;  // the driver is in a `request`
  uint64_t round_;           // the last one asked for, or the number before the first
  bool asked_ = false;       // any
  // Who has not answered it, and when it sent something last (at first: when it was asked).
  std::map<Node, Clock::time_point> owing_;
  bool open_ = false;  // it has not ended
  v1::Round merged_;
  Clock::time_point requested_, finished_, deadline_;
  bool idle_ = true;           // the pace at the last look
  uint32_t confirming_ = 0;    // quick rounds in a row
  uint64_t quiet_rounds_ = 0;  // rounds in a row between which no process called anything
  uint64_t records_before_ = 0;
  uint64_t rounds_ = 0, ignored_ = 0;
  std::thread thread_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_ROUND_DRIVER_H_
