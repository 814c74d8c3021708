// The page's files, in the program: dashboard/ as npm builds it.
#ifndef GORDIAN_DASHBOARD_PAGE_FILES_H_
#define GORDIAN_DASHBOARD_PAGE_FILES_H_

#include "analyzer/web/page_document.h"

namespace gordian::dashboard {

// Views of constants.
web::PageFiles EmbeddedPage();

}  // namespace gordian::dashboard

#endif  // GORDIAN_DASHBOARD_PAGE_FILES_H_
