// CRC-32 as in zlib, gzip and PNG (reflected polynomial 0xEDB88320).
#ifndef GORDIAN_COMMON_CRC32_H_
#define GORDIAN_COMMON_CRC32_H_

#include <cstddef>
#include <cstdint>

namespace gordian {

// `crc` is the result for the preceding bytes, 0 at the start.
uint32_t Crc32(const void* data, size_t bytes, uint32_t crc = 0);

}  // namespace gordian

#endif  // GORDIAN_COMMON_CRC32_H_
