#include "analyzer/session/session_files.h"

#include "common/owned_folder.h"

namespace gordian::analyzer {

Status ReplaceFile(const std::string& path, std::string_view contents) {
  return gordian::ReplaceFile(path, contents);
}

}  // namespace gordian::analyzer
