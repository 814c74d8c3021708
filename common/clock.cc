#include "common/clock.h"

#include <cstdio>

namespace gordian {

std::string FormatUtc(uint64_t real_ns) {
  const time_t seconds = static_cast<time_t>(real_ns / kNsPerSecond);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[64];
  if (strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
    return "?";
  }
  char text[80];
  std::snprintf(text, sizeof(text), "%s.%03uZ", date,
                static_cast<unsigned>(real_ns % kNsPerSecond / kNsPerMs));
  return text;
}

}  // namespace gordian
