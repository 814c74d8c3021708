// One job's collectors: who they are, how far each one's batches have come, and what becomes of the
// events in them. Knows streams, but not which server they belong to.
//
// Exactly once: the events of a batch and the mark of its number (node, number) stand in one chunk
// of the trace, so whatever can be read of a trace that was cut holds a batch whole or not at all.
// A batch is acknowledged when its chunk is in the file.
// docs/adr/0007-exactly-once-by-batch-marks.md.
#ifndef GORDIAN_ANALYZER_INGEST_JOB_INGEST_H_
#define GORDIAN_ANALYZER_INGEST_JOB_INGEST_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/ingest/outbox.h"
#include "analyzer/ingest/round_driver.h"
#include "analyzer/ingest/stream_guard.h"
#include "analyzer/session/analysis.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::analyzer {

inline constexpr uint32_t kMaxNodes = 4096;  // of one job

// At most so much of a text from outside, without control characters.
std::string Shown(const std::string& text);

// The first message of a stream, which must come soon. False: the other side came and went. *why:
// it cannot be taken, and the sentence names both versions; "": it is a Hello.
bool ReadHello(IngestStream* stream, StreamGuard::Place* place, const std::string& gordian_version,
               v1::ToAnalyzer* first, std::string* why);
// Says so, in the log and to the other side.
grpc::Status Refuse(IngestStream* stream, const std::string& why);

// What the report says of a node.
struct NodeStatus {
  uint32_t index = 0;
  std::string name, host, session;
  uint64_t incarnation = 0;
  int32_t node_rank = -1;
  bool connected = false;
  bool ended = false;
  uint64_t last_batch = 0;
  bool has_clock = false;
  int64_t clock_offset_ns = 0;
  uint64_t clock_bound_ns = 0;
};

// Thread-safe. All streams must have left Serve before it goes.
class JobIngest {
 public:
  struct Options {
    // Many nodes, which come and go: marks, clocks and comings and goings are written to the trace,
    // and acknowledgements wait for it. False: the analyzer in the process of its only collector.
    bool fleet = false;
    std::string job;  // as the analyzer files it; sent in Welcome
    std::string gordian_version;
  };
  // `analysis` must outlive this object.
  JobIngest(Analysis* analysis, Options options);
  ~JobIngest();
  JobIngest(const JobIngest&) = delete;
  JobIngest& operator=(const JobIngest&) = delete;

  // From a trace that is read again, in its order, before Start.
  void Recall(const v1::Event& event);
  // Of those that were recalled: nothing is known of them until they say Hello.
  void NoteAllAway();

  // Before the first Admit. `rounds` must outlive the last stream.
  void Start(RoundDriver* rounds) { rounds_ = rounds; }

  struct Node;

  // Takes a collector in, or says why not (null). A second stream of an incarnation that is
  // connected already ends the first one: a cut is often seen by one side only. Waits for that.
  Node* Admit(const v1::Hello& hello, grpc::ServerContext* context, std::string* why);

  // Reads until the stream ends, or brings what is not taken. `node` was admitted just now; `place`
  // is the stream's.
  grpc::Status Serve(IngestStream* stream, Node* node, StreamGuard::Place* place);

  // Everything that was fed so far is durable. Called by the analysis, under its lock.
  void OnDurable();
  // To every node that is connected, and to those that come later.
  void Tell(SharedVerdict verdict);
  // Of every node that is connected, and of those that come later. Before the verdict that wants
  // them is sent: then a node that has it knows that stacks are on their way.
  void AskForStacks(const v1::StacksRequest& request);

  bool Knows(uint64_t incarnation) const;
  bool Over() const;       // the job has ended at all nodes that are expected
  bool Connected() const;  // any node
  std::vector<NodeStatus> nodes() const;
  uint64_t changes() const;  // grows when nodes() says something new

 private:
  // *answers: the batch brought the node's answer to a round.
  bool TakeBatch(v1::EventBatch* batch, Node* node, v1::Round* answer, bool* answers);
  void TakeAtOnce(v1::EventBatch* batch, Node* node, uint64_t missing);
  void TakeClock(const v1::ClockReading& reading, Node* node);
  v1::StacksRequest RequestOf(uint32_t index) const;
  static v1::Event StateOf(const Node& node, v1::NodeStateKind kind, uint64_t missing = 0);
  bool NoteEnded(const v1::JobEnded& ended, Node* node);
  bool AllEndedLocked() const;
  uint64_t ToOurClock(const Node& node, uint64_t time_ns) const;

  Analysis* const analysis_;
  RoundDriver* rounds_ = nullptr;
  const Options options_;

  std::mutex ends_mutex_;     // while a node's end is taken in; before mutex_
  mutable std::mutex mutex_;  // never held while the analysis is called: OnDurable comes from it
  std::condition_variable left_;
  std::string version_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // never erased: stable
  uint32_t next_index_ = 0;  // above all in nodes_; a trace that was cut may lack one in between
  uint32_t expected_ = 0;
  bool any_ended_ = false;
  bool job_ended_sent_ = false;
  v1::JobEnded job_ended_;
  SharedVerdict verdict_;
  v1::StacksRequest stacks_request_;  // the latest; 0: none
  uint64_t changes_ = 0;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_JOB_INGEST_H_
