// Packs batches of events for the network: records resemble each other, so 50 to 60 bytes become 10
// to 20. And news of verdicts, of which each node of a job gets all.
#ifndef GORDIAN_COMMON_PACKED_BATCH_H_
#define GORDIAN_COMMON_PACKED_BATCH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "gordian/v1/ingest.pb.h"

namespace gordian {

// Makes the message for a batch: packed, unless packing gains nothing or memory is short.
v1::ToAnalyzer PackedMessage(const v1::ToAnalyzer& message);

// Unpacks a batch of PackedMessage, and leaves others alone. Accepts any bytes: rejects contents of
// more than `most` bytes, and serialised batches that `acceptable` rejects. Returns false with the
// reason in *why; *batch is then unspecified.
using Acceptable = std::function<bool(std::string_view contents, std::string* why)>;
bool Unpack(size_t most, const Acceptable& acceptable, v1::EventBatch* batch, std::string* why);

// The same for a verdict.
v1::VerdictNews PackedNews(const v1::VerdictNews& news);
bool Unpack(v1::VerdictNews* news, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_PACKED_BATCH_H_
