// The source lines that nodes sent with their stacks, of a job whose files are on them.
#ifndef GORDIAN_ANALYZER_STACKS_SOURCE_BOOK_H_
#define GORDIAN_ANALYZER_STACKS_SOURCE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "analyzer/model/verdict/verdict.h"
#include "common/source_excerpt.h"
#include "gordian/v1/event.pb.h"

namespace gordian::analyzer {

// Cuts what a collector sent of places to what an honest one sends.
void BoundPlaces(v1::StacksTaken* taken);

// Keeps the first lines that a node sent of a place, as they were when the job hung. Bounded for a
// node and in all. Thread-safe.
class SourceBook {
 public:
  void OnEvent(const v1::Event& event);

  // The job runs on nodes: a file of this machine that they name is none of theirs.
  bool on_nodes() const;

  // Returns what the process's own node sent, else what another node did. No lines: no node sent any.
  SourceExcerpt Find(model::ProcessId process, const std::string& file, int line) const;

 private:
  using Key = std::tuple<std::string, int, uint32_t>;  // file, line, node

  mutable std::mutex mutex_;
  bool on_nodes_ = false;
  std::map<Key, SourceExcerpt> excerpts_;
  std::map<uint32_t, size_t> bytes_of_;  // by node
  size_t bytes_ = 0;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_SOURCE_BOOK_H_
