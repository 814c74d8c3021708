// Keeps report.html, and status.json beside it, in the folder of a session whose job runs.
#ifndef GORDIAN_CLI_WEB_SESSION_PAGE_H_
#define GORDIAN_CLI_WEB_SESSION_PAGE_H_

#include <string>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/web/page_document.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

inline constexpr char kPageFile[] = "report.html";
inline constexpr char kStatusFile[] = "status.json";

// Thread compatible.
class SessionPage {
 public:
  // Replaces both files. A job in trouble shows what it did when it was found so, which status.json
  // keeps: later all of it has ended. `main`: the verdict of `parts`.
  Status Write(const OwnedFolder& folder, const model::Finding& main, web::PageParts parts);

 private:
  void Recall(const OwnedFolder& folder);

  bool recalled_ = false;
  std::string trouble_;  // which one `status_` is of; "": none
  std::string status_;
};

// The status.json of a session; "": there is none.
std::string KeptStatus(const std::string& session);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_SESSION_PAGE_H_
