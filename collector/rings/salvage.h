// What becomes of ring files: kept in the session, gone from memory.
#ifndef GORDIAN_COLLECTOR_RINGS_SALVAGE_H_
#define GORDIAN_COLLECTOR_RINGS_SALVAGE_H_

#include <optional>
#include <string>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::collector {

// Copies a ring file into another folder under the same name (mode 0600, replaced if there) without
// its holes and zero blocks, at most kMaxFileBytes of it, whatever its bytes are. Leaves nothing
// half-written behind.
Status CopyRingFile(const OwnedFolder& from, const OwnedFolder& to, const std::string& name);

// The folder <session>/rings. Not thread-safe.
class RingKeeper {
 public:
  // `rings` must outlive the keeper. Without a session (null) it keeps nothing.
  RingKeeper(const OwnedFolder* rings, const OwnedFolder* session);

  // While the process lives: a link in the session, so that a ring can be found after a crash of
  // ours.
  void Link(const std::string& name);

  // After it: a copy takes the link's place, then the original is removed, copied or not: memory is
  // not ours to keep. Error: there is no copy.
  Status Keep(const std::string& name);

 private:
  const OwnedFolder* const rings_;
  std::optional<OwnedFolder> kept_;  // none: keep nothing
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_SALVAGE_H_
