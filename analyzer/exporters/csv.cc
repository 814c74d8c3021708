// Writes every operation as a line of comma-separated values (RFC 4180), after a line of names.
#include <string>
#include <string_view>

#include "analyzer/exporters/formats.h"
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

}  // namespace

StatusOr<Exported> WriteCsv(const Job& job) {
  std::string text(kNames);
  const auto number = [&](auto value) { text += std::to_string(value) + ","; };
  for (const auto& [rank, logged] : job.log.ranks()) {
    for (const LoggedOperation& operation : logged.operations) {
      number(rank);
      number(logged.pid);
      text += Quoted(job.log.groups()[static_cast<size_t>(operation.group)].name) + ",";
      text += std::string(model::Name(operation.call)) + ",";
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
      text += std::string(Name(operation.progress)) + ",";
      text += Quoted(analyzer::ShortForm(operation.site, operation.site_address)) + "\r\n";
    }
  }
  Exported exported;
  exported.files.emplace_back("", std::move(text));
  return exported;
}

}  // namespace gordian::exporters
