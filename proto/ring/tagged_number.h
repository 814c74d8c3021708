// The number of a transfer of torch.distributed, as records have it: how many transfers of its tag
// the two members have called before, and from bit kTagShift on the tag. Transfers of different tags
// do not meet, and so have different numbers.
#ifndef GORDIAN_PROTO_RING_TAGGED_NUMBER_H_
#define GORDIAN_PROTO_RING_TAGGED_NUMBER_H_

#include <stdint.h>

namespace gordian::ring {

inline constexpr int kTagShift = 32;
// A tag from kTagsInFull on stands as kTagHashed plus a hash below kTagHashed.
inline constexpr uint64_t kTagsInFull = 1 << 16, kTagHashed = 1 << 22;

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_TAGGED_NUMBER_H_
