// The folder of sessions of an analyzer for many jobs, with one folder for each job.
#ifndef GORDIAN_ANALYZER_FLEET_JOB_FOLDERS_H_
#define GORDIAN_ANALYZER_FLEET_JOB_FOLDERS_H_

#include <string>
#include <vector>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::analyzer {

// Makes a folder's name of a job's: keeps only characters that suit one.
std::string FolderName(const std::string& job);

// The last part of a job's folder, which names it among all jobs of a server.
std::string LeafOf(const std::string& folder);

// Adds the folders in `dir`, sorted. Error: `dir` cannot be read to its end; the folders read so
// far are in *folders.
Status ListFolders(const std::string& dir, std::vector<std::string>* folders);

// Makes a new folder in `dir` for a job, and returns its name: NAME, or NAME.N with N above all
// existing ones. Error: mkdirat fails.
StatusOr<std::string> MakeJobFolder(const OwnedFolder& dir, const std::string& job);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_FLEET_JOB_FOLDERS_H_
