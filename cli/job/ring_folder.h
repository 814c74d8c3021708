// The folder under /dev/shm where a job's processes put their ring files (proto/ring/layout.h says
// how they are named), seen from outside: made, listed, saved, removed.
#ifndef GORDIAN_CLI_JOB_RING_FOLDER_H_
#define GORDIAN_CLI_JOB_RING_FOLDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/job/process_tree.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

inline constexpr char kRingFolderBase[] = "/dev/shm";

// Makes <base>/gordian-<uid>-<random>, mode 0700, owned by us alone, and holds a lock on it for as
// long as this process or a forked one has it open. Notes the session, for SweepAbandonedFolders.
StatusOr<OwnedFolder> CreateRingFolder(const std::string& base = kRingFolderBase,
                                       const std::string& session_dir = "");

// Removes the folders of this user's whose `gordian run` and guardian have gone, and whose rings are
// of processes that have gone, too; their rings are kept in their sessions first, where these are
// still there. Returns how many folders it removed.
size_t SweepAbandonedFolders(const std::string& base = kRingFolderBase);

// Why a process cannot put a ring file there, for people; empty: it can.
std::string WhyNoRing(const std::string& folder);

struct RingFileEntry {
  std::string name;  // within the folder
  ProcessKey process;
};

// "<pid>.<start>.ring", or "<pid>.<start>.<n>.ring" after an exec; false for any other name.
bool ParseRingFileName(std::string_view name, ProcessKey* process);

std::vector<RingFileEntry> ListRings(const std::string& folder);
std::vector<ProcessKey> LivingRingProcesses(const std::string& folder);

// Keeps a copy in <session>/rings (null: no copies) of the rings whose process has gone, and
// removes them. Returns how many rings of living processes are left.
size_t SweepRings(const OwnedFolder& folder, const OwnedFolder* session);

// The header of a kept ring. Another process wrote these bytes: only show them to people.
struct SavedRing {
  pid_t pid = 0;
  int rank = -1;  // of the environment; -1: none
  int local_rank = -1;
};
std::vector<SavedRing> SavedRings(const std::string& rings_folder);

// Removes the ring files in the folder, then the folder. Error: what else lies there, which stays,
// or another folder that has taken its place.
Status RemoveRingFolder(const OwnedFolder& folder);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_RING_FOLDER_H_
