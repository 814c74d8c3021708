// The stacks of a job's stuck threads: decides when to request them, collects them, and adds them
// to the verdict.
#ifndef GORDIAN_ANALYZER_STACKS_STACK_BOOK_H_
#define GORDIAN_ANALYZER_STACKS_STACK_BOOK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "analyzer/stacks/call_sites.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::analyzer {

// Not thread-safe.
class StackBook {
 public:
  void OnEvent(const v1::Event& event);

  // Returns the request to make for this verdict, with the sites whose source is to be shown;
  // nullopt if it is no problem or was asked before. Asks once per kind and confidence, and a few
  // times in a job about what may just be slow, since taking stacks has a price. Drops the stacks
  // of a problem that no longer exists.
  std::optional<v1::StacksRequest> Want(const model::JobModel& model, const model::Verdict& verdict,
                                        const SiteResolver& sites);
  bool awaited() const { return asked_ > done_; }

  // Grows when AddTo would add something new.
  uint64_t changes() const { return changes_; }
  // Adds the stacks, and names in the evidence what collectors could not read.
  void AddTo(const model::JobModel& model, model::Verdict* verdict) const;

 private:
  std::map<uint32_t, uint32_t> pids_;          // by process
  std::map<uint32_t, v1::StacksTaken> taken_;  // by process, of the latest request
  uint64_t latest_ = 0;                        // the latest request with an answer
  std::set<std::string> asked_for_;            // kinds of verdicts
  int slow_asked_ = 0;                         // requests about what may just be slow
  uint64_t asked_ = 0, done_ = 0;              // numbers of requests
  uint64_t changes_ = 1;

  // Made of the above when `changes_` was `folded_at_`.
  mutable uint64_t folded_at_ = 0;
  mutable std::vector<int> folded_for_;
  mutable std::vector<model::FoldedStack> folded_;
  mutable std::vector<std::string> not_visible_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_STACK_BOOK_H_
