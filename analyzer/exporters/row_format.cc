#include "analyzer/exporters/row_format.h"

#include <set>

namespace gordian::exporters {
namespace {

constexpr size_t kPiece = 1 << 20;  // bytes that are written at once

}  // namespace

void RowFormat::OnOperation(const LoggedOperation& operation) {
  spool_.Add(operation);
  if (operation.site_address != 0) sites_.try_emplace({operation.process, operation.site_address});
}

void RowFormat::AtEnd(const model::JobModel&, analyzer::CallSites* sites) {
  for (auto& [site, text] : sites_)
    text = analyzer::ShortForm(sites->Resolve(site.first, site.second), site.second);
}

StatusOr<Exported> RowFormat::Finish(const Job& job) {
  Exported exported;
  exported.files.emplace_back();
  Begin(job, &exported.files.front().second);
  if (const std::string note = Note(); !note.empty()) exported.notes.push_back(note);
  return exported;
}

Status RowFormat::WriteRest(const Job& job, int fd) {
  const auto rank_of = [&](int group, int member) { return job.RankOf(group, member); };
  std::set<int> ranks = spool_.Ranks(rank_of);
  for (const auto& [rank, logged] : job.log.ranks()) ranks.insert(rank);
  std::string text;
  Status written = Status::Ok();
  const auto write = [&](size_t above) {
    if (text.size() <= above) return;
    if (written.ok()) written = WriteExported(fd, text);
    text.clear();
  };
  for (const int rank : ranks) {
    const auto logged = job.log.ranks().find(rank);
    const uint32_t pid = logged == job.log.ranks().end() ? 0 : logged->second.pid;
    BeginRank(job, rank, &text);
    GORDIAN_RETURN_IF_ERROR(
        spool_.ForEach(rank, rank_of, keep_, [&](const LoggedOperation& operation) {
          const auto site = sites_.find({operation.process, operation.site_address});
          Row(job, rank, pid, operation, site == sites_.end() ? "" : site->second, &text);
          write(kPiece);
        }));
    GORDIAN_RETURN_IF_ERROR(written);
  }
  End(&text);
  write(0);
  return written;
}

}  // namespace gordian::exporters
