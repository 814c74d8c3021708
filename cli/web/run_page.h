// The RunPage of `gordian run`, with the page's files in the program.
#ifndef GORDIAN_CLI_WEB_RUN_PAGE_H_
#define GORDIAN_CLI_WEB_RUN_PAGE_H_

#include <memory>

#include "cli/run/run_page.h"

namespace gordian::cli {

std::unique_ptr<RunPage> MakePageOfRun(const RunPageOptions& options);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_RUN_PAGE_H_
