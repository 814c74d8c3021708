// A large-language-model training job with tensor, pipeline and data parallelism, written down as
// its collectors would tell it, healthy for some steps and then with a fault in it.
//
// Rank = (data * pipeline + stage) * tensor + lane, as Megatron-LM numbers them (arXiv:2104.04473),
// so that a tensor-parallel group lies within a node. Communicators: the world; tp (all lanes of a
// stage); ppf and ppb (all stages of a lane; activations and gradients); dp (all replicas of a
// stage and lane), made as two levels, dp within a pod of eight replicas and dpx between pods,
// where there are more than eight (a multiple of eight, then). A step is 1F1B: for each micro batch
// two all-reduces on tp a layer, sends and receives on streams of their own and ordered by events;
// then reduce-scatter and all-gather on dp (all-reduce on dpx between them), an all-reduce over the
// world, and the host waits.
//
// What the devices did is found out by running it: an operation ends when, at every member, it
// stands at the head of its stream and nothing is before it on its communicator. It shares nothing
// with the analyzer.
#ifndef GORDIAN_TESTING_JOBS_TRAINING_JOB_H_
#define GORDIAN_TESTING_JOBS_TRAINING_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "gordian/v1/event.pb.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::testing {

enum class Fault {
  kNone,
  kInversion,  // one rank calls the world's all-reduce before its data-parallel reduce-scatter
  kMissing,    // one rank never begins the last step: it is in no call, and sleeps
};

struct TrainingShape {
  int tensor = 8;
  int pipeline = 16;
  int data = 1;
  int micro_batches = 4;
  int layers = 2;  // of a stage
  int steps = 2;   // the fault is in the last one
  Fault fault = Fault::kNone;

  int ranks() const { return tensor * pipeline * data; }
};

inline constexpr int kRanksOfNode = 8;
inline constexpr int kReplicasOfPod = 8;

class TrainingJob {
 public:
  explicit TrainingJob(const TrainingShape& shape);

  // Events of one node, in order: nodes in any order, each node's calls in theirs. Processes are
  // numbered from 1 within their node. `sink` is called for each node once or more.
  using Sink = std::function<void(int node, std::vector<v1::Event> events)>;
  void Begin(const Sink& sink);           // processes, communicators, streams
  void Step(int step, const Sink& sink);  // from 0
  // The answer of a node to round `number`, after all of Begin and Step.
  v1::Event Round(int node, uint64_t number);
  // Of all of them, with processes numbered as MakeUnique does.
  v1::Event WholeRound(uint64_t number);
  // What the ingest service does to the numbers of processes.
  static void MakeUnique(int node, v1::Event* event);

  int nodes() const { return (shape_.ranks() + kRanksOfNode - 1) / kRanksOfNode; }
  int faulty_rank() const { return faulty_; }
  // Operations of the last step that never ended.
  uint64_t stuck() const { return stuck_; }
  void Sleep(uint64_t ns) { job_.Sleep(ns); }

 private:
  // What stands on a stream in the last step.
  struct Entry {
    uint32_t stream = 0;
    uint64_t ordinal = 0;
    uint64_t match = 0;  // what all members of an operation have in common; 0: not an operation
    int members = 1;
    // Places of entries of this rank that must have ended before; -1: none.
    int after = -1;         // what an event stands behind
    int communicator = -1;  // the operation before it on the same communicator
  };
  // Of one rank, in the last step.
  struct Program {
    std::vector<Entry> entries;
    std::map<uint64_t, uint64_t> numbers;  // by communicator or pair: operations so far
    std::map<uint64_t, int> last;          // by communicator: place of its last operation
  };
  struct Place {
    int data, stage, lane;
  };

  Place PlaceOf(int rank) const;
  int RankOf(int data, int stage, int lane) const;
  uint64_t Tp(const Place& at) const;
  uint64_t Pp(const Place& at, bool forward) const;
  uint64_t Dp(const Place& at) const;
  uint64_t Dpx(const Place& at) const;
  int Pods() const { return (shape_.data + kReplicasOfPod - 1) / kReplicasOfPod; }

  void StepOf(int rank);
  void Layers(int rank);
  void Pass(int rank, bool forward);
  void Collective(int rank, const char* symbol, uint64_t uid, int members, uint32_t stream,
                  uint64_t count);
  void Transfer(int rank, bool send, int stage, bool forward);
  int Note(int rank, Entry entry);
  void NoteOperation(int rank, uint64_t uid, Entry entry);
  // `to` waits for all that `from` has now.
  void Order(int rank, uint32_t from, uint32_t to);
  void Deliver(const Sink& sink);
  void Run();

  const TrainingShape shape_;
  RecordedJob job_;
  const int faulty_;
  bool last_step_ = false;
  uint64_t stuck_ = 0;
  std::vector<Program> programs_;
};

}  // namespace gordian::testing

#endif  // GORDIAN_TESTING_JOBS_TRAINING_JOB_H_
