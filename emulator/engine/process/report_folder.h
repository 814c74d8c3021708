// The folder of a file that a process writes and removes again while it runs: found by its path when
// the process begins, and the same folder later, or none. No descriptor is kept, since a program may
// close all that it has.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_REPORT_FOLDER_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_REPORT_FOLDER_H_

#include <sys/stat.h>

#include <string>

namespace gordian::emu {

class ReportFolder {
 public:
  // Of the file at `path`.
  explicit ReportFolder(const std::string& path);

  // Replaces the file atomically; a link of its name is replaced, and what it leads to stays. Returns
  // 0, or an errno: ESTALE if another folder has taken the place.
  int Replace(const std::string& text) const;
  // Removes the file, or nothing.
  void Remove() const;

 private:
  int Open() const;  // -1 and errno

  std::string folder_, name_;
  struct stat seen_ {};
  bool there_ = false;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_REPORT_FOLDER_H_
