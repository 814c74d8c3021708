// Batches of events on their way from node to node, packed: of a record of 50 to 60 bytes 10 to 20
// are left, since records are much alike.
#ifndef GORDIAN_COMMON_PACKED_BATCH_H_
#define GORDIAN_COMMON_PACKED_BATCH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "gordian/v1/ingest.pb.h"

namespace gordian {

// The message that brings the batch: packed, unless it is so small that this gains nothing, or
// there is no memory for it.
v1::ToAnalyzer PackedMessage(const v1::ToAnalyzer& message);

// Puts back what PackedMessage packed; does nothing to other batches. From anybody: contents of
// more than `most` bytes are not unpacked, nor what `acceptable` (given the serialised batch)
// rejects; it says why. False: *why says what is wrong, and *batch is of no use.
using Acceptable = std::function<bool(std::string_view contents, std::string* why)>;
bool Unpack(size_t most, const Acceptable& acceptable, v1::EventBatch* batch, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_PACKED_BATCH_H_
