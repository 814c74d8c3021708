#include "collector/process/text_sites.h"

#include <utility>

#include "common/utf8.h"
#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

constexpr size_t kMostThreads = 4096;
constexpr size_t kMostTexts = 4096;

}  // namespace

void TextSites::OnRecord(const ring::Record& record) {
  if (record.kind != ring::RecordKind::kLongText || record.call != ring::kTorchCall_site) return;
  const uint32_t number = record.flags & ~uint32_t{ring::kLastPiece};
  if (number == 0) {
    if (pieces_.size() >= kMostThreads && !pieces_.contains(record.thread)) return;
    pieces_[record.thread] = {.site = record.call_site};
  }
  const auto found = pieces_.find(record.thread);
  if (found == pieces_.end()) return;
  Pieces& pieces = found->second;
  if (number != pieces.next || record.call_site != pieces.site) {
    pieces_.erase(found);  // one before it was lost
    return;
  }
  ++pieces.next;
  pieces.text += TextOf(record.payload.piece.text, sizeof record.payload.piece.text);
  if ((record.flags & ring::kLastPiece) == 0) return;
  if (texts_.size() < kMostTexts) texts_.try_emplace(pieces.site, std::move(pieces.text));
  pieces_.erase(found);
}

std::string TextSites::Of(uint64_t site) const {
  const auto found = texts_.find(site);
  return found == texts_.end() ? "" : found->second;
}

}  // namespace gordian::collector
