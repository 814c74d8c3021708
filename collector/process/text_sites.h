// Keeps the texts of a process's call sites in Python, which its records name by number.
#ifndef GORDIAN_COLLECTOR_PROCESS_TEXT_SITES_H_
#define GORDIAN_COLLECTOR_PROCESS_TEXT_SITES_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "proto/ring/record.h"

namespace gordian::collector {

// Bounded: forgets none that it has, and takes no more than some thousand. Not thread-safe.
class TextSites {
 public:
  // Any record of the process, after CheckRecord, in the order of its thread.
  void OnRecord(const ring::Record& record);
  // Of Record::call_site; "": it has named none.
  std::string Of(uint64_t site) const;

 private:
  struct Pieces {
    uint64_t site = 0;
    uint32_t next = 0;
    std::string text;
  };
  std::unordered_map<uint32_t, Pieces> pieces_;  // by thread
  std::unordered_map<uint64_t, std::string> texts_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_TEXT_SITES_H_
