#include "common/packed_batch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/budget.h"
#include "common/compression.h"

namespace gordian {
namespace {

constexpr size_t kWorthPacking = 512;  // bytes

}  // namespace

v1::ToAnalyzer PackedMessage(const v1::ToAnalyzer& message) {
  const std::string contents = message.batch().SerializeAsString();
  if (contents.size() < kWorthPacking) return message;
  v1::ToAnalyzer packed;
  packed.mutable_batch()->set_number(message.batch().number());
  std::string* const frame = packed.mutable_batch()->mutable_packed();
  if (!Compress(contents, frame).ok()) return message;
  Pad(contents.size() / kFrameRatio, frame);  // the receiver's bound
  return packed;
}

bool Unpack(size_t most, const Acceptable& acceptable, v1::EventBatch* batch, std::string* why) {
  if (batch->packed().empty()) return true;
  std::vector<char> contents;
  most = std::min<uint64_t>(most, MostContents(batch->packed().size()));
  if (!Decompress(batch->packed(), most, &contents, why)) return false;
  if (!acceptable({contents.data(), contents.size()}, why)) return false;
  v1::EventBatch inner;
  if (!inner.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) {
    *why = "a packed batch is malformed";
    return false;
  }
  if (inner.number() != batch->number() || !inner.packed().empty() || batch->events_size() != 0) {
    *why = "a packed batch contradicts its message";
    return false;
  }
  *batch = std::move(inner);
  return true;
}

v1::VerdictNews PackedNews(const v1::VerdictNews& news) {
  const std::string contents = news.SerializeAsString();
  if (contents.size() < kWorthPacking) return news;
  v1::VerdictNews packed;
  std::string* const frame = packed.mutable_packed();
  if (!Compress(contents, frame).ok()) return news;
  Pad(contents.size() / kFrameRatio, frame);
  return packed;
}

bool Unpack(v1::VerdictNews* news, std::string* why) {
  if (news->packed().empty()) return true;
  std::vector<char> contents;
  if (!Decompress(news->packed(), MostContents(news->packed().size()), &contents, why))
    return false;
  v1::VerdictNews inner;
  if (!inner.ParseFromArray(contents.data(), static_cast<int>(contents.size())) ||
      !inner.packed().empty()) {
    *why = "a packed verdict is malformed";
    return false;
  }
  *news = std::move(inner);
  return true;
}

}  // namespace gordian
