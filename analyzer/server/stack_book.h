// The stacks of a job's stuck threads: when they are wanted, what has come, and what belongs to the
// verdict.
#ifndef GORDIAN_ANALYZER_SERVER_STACK_BOOK_H_
#define GORDIAN_ANALYZER_SERVER_STACK_BOOK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/graph/job_model.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::server {

// Not thread-safe.
class StackBook {
 public:
  void OnEvent(const v1::Event& event);

  // What to ask for now that this is the verdict; nullopt: it is no problem, or was asked for. Once
  // for each kind and confidence: taking stacks is not for nothing. What was taken for a problem
  // that is none any more is forgotten.
  std::optional<v1::StacksRequest> Want(const graph::JobModel& model, const graph::Finding& main);
  bool awaited() const { return asked_ > done_; }

  // Grows when AddTo would say something new.
  uint64_t changes() const { return changes_; }
  // Fills in the stacks, and names in the evidence what could not be read.
  void AddTo(const graph::JobModel& model, graph::Verdict* verdict) const;

 private:
  std::map<uint32_t, uint32_t> pids_;          // by process
  std::map<uint32_t, v1::StacksTaken> taken_;  // by process, of the latest request
  uint64_t latest_ = 0;                        // that something came for
  std::set<std::string> asked_for_;            // kinds of verdicts
  uint64_t asked_ = 0, done_ = 0;              // numbers of requests
  uint64_t changes_ = 1;

  // Made of the above when `changes_` was `folded_at_`.
  mutable uint64_t folded_at_ = 0;
  mutable std::vector<int> folded_for_;
  mutable std::vector<graph::FoldedStack> folded_;
  mutable std::vector<std::string> not_visible_;
};

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_STACK_BOOK_H_
