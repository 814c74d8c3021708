// What becomes of ring files: kept in the session, gone from memory.
#ifndef GORDIAN_COLLECTOR_SALVAGE_H_
#define GORDIAN_COLLECTOR_SALVAGE_H_

#include <string>

#include "common/status.h"

namespace gordian::collector {

// Copies a ring file to `to` (mode 0600, replaced if there) without its holes and zero blocks, at
// most kMaxFileBytes of it, whatever its bytes are. Leaves nothing half-written behind.
Status CopyRingFile(const std::string& from, const std::string& to);

// The folder <session>/rings. Not thread-safe.
class RingKeeper {
 public:
  // An empty session_dir keeps nothing.
  explicit RingKeeper(std::string ring_dir, const std::string& session_dir);

  // While the process lives: a link in the session, so that a ring can be found after a crash of
  // ours.
  void Link(const std::string& name);

  // After it: a copy takes the link's place, then the original is removed, copied or not: memory is
  // not ours to keep. Error: there is no copy.
  Status Keep(const std::string& name);

 private:
  const std::string ring_dir_;
  std::string kept_dir_;  // empty: keep nothing
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_SALVAGE_H_
