// The version of gordian and of the formats that it writes.
#ifndef GORDIAN_COMMON_VERSION_H_
#define GORDIAN_COMMON_VERSION_H_

#include <cstdint>

namespace gordian {

#ifndef GORDIAN_VERSION_STRING
#error "GORDIAN_VERSION_STRING comes from the target gordian::common"
#endif

inline constexpr char kVersion[] = GORDIAN_VERSION_STRING;

// Hello.protocol. An analyzer refuses any other.
inline constexpr uint32_t kIngestProtocol = 4;

// TraceHeader.format. A reader refuses higher ones.
inline constexpr uint32_t kTraceFormat = 2;

}  // namespace gordian

#endif  // GORDIAN_COMMON_VERSION_H_
