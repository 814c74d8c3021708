// The folder of sessions of an analyzer for many jobs: a folder for each.
#ifndef GORDIAN_ANALYZER_SERVER_JOB_FOLDERS_H_
#define GORDIAN_ANALYZER_SERVER_JOB_FOLDERS_H_

#include <string>
#include <vector>

#include "common/status.h"

namespace gordian::server {

// A folder's name from a job's: only characters that suit one.
std::string FolderName(const std::string& job);

// Adds the folders in `dir`, in order. Error: it cannot be read, or not to its end; what was read
// up to there has been added.
Status ListFolders(const std::string& dir, std::vector<std::string>* folders);

// Makes the folder of a job, which must not be another's: NAME, or NAME.N with an N above all that
// are there. Error: it cannot be made.
StatusOr<std::string> MakeJobFolder(const std::string& dir, const std::string& job);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_JOB_FOLDERS_H_
