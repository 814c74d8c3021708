// What formats share that write a piece of text for each operation, rank by rank: the operations lie
// on disk while the trace is read, and the text is written as it is made.
#ifndef GORDIAN_ANALYZER_EXPORTERS_ROW_FORMAT_H_
#define GORDIAN_ANALYZER_EXPORTERS_ROW_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "analyzer/exporters/formats.h"
#include "analyzer/exporters/operation_spool.h"

namespace gordian::exporters {

class RowFormat : public StreamedFormat {
 public:
  RowFormat(ScratchFile* scratch, size_t keep) : spool_(scratch), keep_(keep) {}

  void OnRecord(const model::CallRecord&) final {}
  void OnEvent(const v1::Event&) final {}
  void OnOperation(const LoggedOperation& operation) final;
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) final;
  StatusOr<Exported> Finish(const Job& job) final;
  Status WriteRest(const Job& job, int fd) final;

 protected:
  // These append to `text`. `site`: the operation's, in short form.
  virtual void Begin(const Job& job, std::string* text) = 0;
  virtual void BeginRank(const Job&, int, std::string*) {}
  virtual void Row(const Job& job, int rank, uint32_t pid, const LoggedOperation& operation,
                   const std::string& site, std::string* text) = 0;
  virtual void End(std::string*) {}
  virtual std::string Note() const { return ""; }  // what the format cannot hold; "": nothing

 private:
  OperationSpool spool_;
  const size_t keep_;
  std::map<std::pair<model::ProcessId, uint64_t>, std::string> sites_;  // short forms, by address
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_ROW_FORMAT_H_
