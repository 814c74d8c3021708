// What was seen of a job beside its verdict and may be why (Verdict::signs): calls that failed,
// settings, what a rank did last. It blames nobody and changes no verdict.
#ifndef GORDIAN_ANALYZER_SERVER_SIGN_BOOK_H_
#define GORDIAN_ANALYZER_SERVER_SIGN_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/graph/job_model.h"
#include "analyzer/server/plain_events.h"
#include "gordian/v1/event.pb.h"

namespace gordian::server {

// Not thread-safe. A record costs two look-ups. Memory: a few words for each process and each
// communicator of it.
class SignBook {
 public:
  void OnEvent(const v1::Event& event);
  void OnRecord(const plain::CallRecord& record) { TakeRecord(record); }

  // Appends to `signs`; ranks are those of the model.
  void AddTo(const graph::JobModel& model, graph::Verdict* verdict) const;

 private:
  struct LastCollective {
    bool reduce = false;
    int root = -1;  // rank in the communicator
    uint32_t comm = 0;
  };
  struct Process {
    std::map<std::string, std::string> settings;
    uint32_t failed_call = 0;  // number of the first call that failed; 0: none has
    int result = 0;
    LastCollective last;
    std::map<uint32_t, int> ranks;  // its own, by communicator
  };

  template <typename CallRecord>
  void TakeRecord(const CallRecord& record);
  void CallsThatFailed(const std::map<uint32_t, int>& ranks, graph::Verdict* verdict) const;
  void Settings(const std::map<uint32_t, int>& ranks, graph::Verdict* verdict) const;
  void ReducedToOne(const std::map<uint32_t, int>& ranks, graph::Verdict* verdict) const;

  struct NamedCall {
    std::string symbol;  // "" until a CallName has told
    bool collective = false, reduce = false, nccl = false;
  };
  const NamedCall* Named(uint32_t call) const;
  uint32_t latest_id_ = 0;     // of the record that came last, since most come in runs
  Process* latest_ = nullptr;  // null: not known

  std::unordered_map<uint32_t, Process> processes_;
  std::vector<NamedCall> calls_;  // by number
};

// Signs by what the culprits' threads are in: MPI, Python's lock, a wait for input, the end of the
// process. Of verdicts whose culprits do not come only: a stack inside NCCL tells nothing new.
void AddStackSigns(graph::Verdict* verdict);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_SIGN_BOOK_H_
