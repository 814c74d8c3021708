// A file without a name, for what is too much for memory and must follow what is known last.
#ifndef GORDIAN_ANALYZER_EXPORTERS_SCRATCH_FILE_H_
#define GORDIAN_ANALYZER_EXPORTERS_SCRATCH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian::exporters {

// Writes all of it to a descriptor, of what a format made.
Status WriteExported(int fd, std::string_view bytes);

// Movable, not copyable. Not thread-safe. The file goes with the object, or with the process.
class ScratchFile {
 public:
  // `folder` is where it takes its space. Errors: not writable.
  static StatusOr<ScratchFile> In(const std::string& folder);

  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;
  ~ScratchFile();

  // After a failed write all further ones do nothing; Read and CopyTo say why.
  void Append(std::string_view bytes);
  // Reads what was appended from the byte `at` on.
  Status Read(uint64_t at, void* into, size_t bytes);
  // Writes all of it to a descriptor, from where that stands.
  Status CopyTo(int fd);

 private:
  ScratchFile(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}
  void Flush();
  Status Written();  // all that was appended

  int fd_;
  std::string folder_;
  std::string pending_;
  int error_ = 0;  // errno
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_SCRATCH_FILE_H_
