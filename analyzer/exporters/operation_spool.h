// Operations of a whole job on disk: takes them as they become known, and gives those of a rank back
// in the order of its calls. In memory it holds a few megabytes, and 32 bytes for each run of
// operations of a process that it wrote.
#ifndef GORDIAN_ANALYZER_EXPORTERS_OPERATION_SPOOL_H_
#define GORDIAN_ANALYZER_EXPORTERS_OPERATION_SPOOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/exporters/operation_log.h"
#include "analyzer/exporters/scratch_file.h"
#include "common/status.h"

namespace gordian::exporters {

// Not thread-safe. Without the text of sites.
class OperationSpool {
 public:
  explicit OperationSpool(ScratchFile* file) : file_(*file) {}

  void Add(const LoggedOperation& operation);

  // Each member of a communicator's operations go to this rank.
  using RankOf = std::function<int(int group, int member)>;
  // The ranks that have an operation.
  std::set<int> Ranks(const RankOf& rank_of) const;
  // Calls `each` for the operations of a rank; process by process, each in the order of its calls.
  // `keep`: of the first ones it leaves out as many that are done as there are more than this; 0:
  // none. Errors: the file cannot be read or written.
  Status ForEach(int rank, const RankOf& rank_of, size_t keep,
                 const std::function<void(const LoggedOperation&)>& each);

 private:
  struct Packed {
    uint64_t sequence, count, order, called_ns, done_ns, site_address;
    int32_t group, member, root_or_peer;
    uint32_t stream, thread, batch;
    uint8_t call, datatype, reduce_op, progress;
  };
  struct Run {  // operations of one process, by their order
    uint64_t first = 0;
    uint64_t at = 0;  // in the file
    uint32_t count = 0;
  };
  struct Process {
    std::vector<Run> runs;
    std::vector<Packed> pending;
    std::map<std::pair<int, int>, size_t> of_member;  // operations, by group and member
  };
  class Cursor;

  static Packed Pack(const LoggedOperation& operation);
  static LoggedOperation Unpack(model::ProcessId process, const Packed& packed);
  void WritePending();
  Status Merge(Process* process, const std::function<void(const Packed&)>& each);

  ScratchFile& file_;
  uint64_t written_ = 0;  // bytes
  size_t pending_ = 0;    // operations of all processes
  std::map<model::ProcessId, Process> processes_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_OPERATION_SPOOL_H_
