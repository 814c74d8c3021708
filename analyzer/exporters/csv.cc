// Writes every operation as a line of comma-separated values (RFC 4180), after a line of names.
#include <memory>
#include <string>
#include <string_view>

#include "analyzer/exporters/row_format.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "common/utf8.h"

namespace gordian::exporters {
namespace {

constexpr std::string_view kNames =
    "rank,pid,communicator,operation,sequence,member,root_or_peer,count,datatype,reduce_op,bytes,"
    "stream,thread,batch,order,called_ns,done_ns,state,site\r\n";

// A spreadsheet takes what begins with one of these for a formula.
constexpr std::string_view kFormula = "=+-@\t\r";

std::string Quoted(const std::string& text) {
  std::string clean = CleanUtf8(text);
  if (!clean.empty() && kFormula.find(clean[0]) != std::string_view::npos)
    clean.insert(clean.begin(), '\'');
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  std::string quoted(1, '"');
  for (const char c : clean) quoted.append(c == '"' ? 2 : 1, c);
  quoted.push_back('"');
  return quoted;
}

class Csv final : public RowFormat {
 public:
  using RowFormat::RowFormat;

 private:
  void Begin(const Job&, std::string* text) override { *text = kNames; }

  void Row(const Job& job, int rank, uint32_t pid, const LoggedOperation& operation,
           const std::string& site, std::string* text) override {
    const auto number = [&](auto value) { *text += std::to_string(value) + ","; };
    number(rank);
    number(pid);
    *text += Quoted(job.log.groups()[static_cast<size_t>(operation.group)].name) + ",";
    *text += std::string(model::Name(operation.call)) + ",";
    number(operation.sequence);
    number(operation.member);
    number(operation.root_or_peer);
    number(operation.count);
    number(operation.datatype);
    number(operation.reduce_op);
    number(operation.count * model::DatatypeBytes(operation.datatype));
    number(operation.stream);
    number(operation.thread);
    number(operation.batch);
    number(operation.order);
    number(job.RealTime(operation.called_ns));
    number(operation.done_ns == 0 ? 0 : job.RealTime(operation.done_ns));
    *text += std::string(Name(operation.progress)) + ",";
    *text += Quoted(site) + "\r\n";
  }
};

}  // namespace

std::unique_ptr<StreamedFormat> StreamCsv(ScratchFile* scratch, size_t keep) {
  return std::make_unique<Csv>(scratch, keep);
}

}  // namespace gordian::exporters
