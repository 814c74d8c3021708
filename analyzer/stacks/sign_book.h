// Collects facts beside a job's verdict that may explain it (Verdict::signs): failed calls,
// settings, what a rank did last. It blames no rank and changes no verdict.
#ifndef GORDIAN_ANALYZER_STACKS_SIGN_BOOK_H_
#define GORDIAN_ANALYZER_STACKS_SIGN_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "gordian/v1/event.pb.h"

namespace gordian::analyzer {

// Not thread-safe. A record costs two look-ups. Memory: a few words for each process and each
// communicator of it.
class SignBook {
 public:
  void OnEvent(const v1::Event& event);
  void OnRecord(const model::CallRecord& record);  // of those that GraphEvents tells

  // Appends to `signs`, with the model's ranks.
  void AddTo(const model::JobModel& model, model::Verdict* verdict) const;

 private:
  struct LastCollective {
    bool reduce = false;
    int root = -1;  // rank in the communicator
    uint32_t comm = 0;
  };
  struct Process {
    std::map<std::string, std::string> settings;
    uint32_t failed_call = 0;  // number of the first failed call; 0: none
    int result = 0;
    LastCollective last;
    std::map<uint32_t, int> ranks;  // its rank in each communicator
  };

  void CallsThatFailed(const std::map<uint32_t, int>& ranks, model::Verdict* verdict) const;
  void Settings(const std::map<uint32_t, int>& ranks, model::Verdict* verdict) const;
  void ReducedToOne(const std::map<uint32_t, int>& ranks, model::Verdict* verdict) const;

  struct NamedCall {
    std::string symbol;  // "" until a CallName names it
    bool nccl = false;
  };
  const NamedCall* Named(uint32_t call) const;
  uint32_t latest_id_ = 0;     // of the previous record: records come in runs
  Process* latest_ = nullptr;  // null: not known

  std::unordered_map<uint32_t, Process> processes_;
  std::vector<NamedCall> calls_;  // by number
};

// Adds signs from the culprits' stacks: MPI, Python's lock, a wait for input, the end of the
// process. Only for verdicts whose culprits are missing: a stack inside NCCL says nothing new.
void AddStackSigns(model::Verdict* verdict);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_SIGN_BOOK_H_
