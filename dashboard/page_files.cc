#include "dashboard/page_files.h"

#include <string_view>

// The assembler puts each file between two symbols.
#define GORDIAN_LABEL(NAME) ".global " NAME "\n.hidden " NAME "\n" NAME ":\n"
#define GORDIAN_EMBED(NAME, FILE)                                                               \
  asm(".section .rodata\n" GORDIAN_LABEL(                                                       \
      "gordian_page_" #NAME) ".incbin \"" GORDIAN_PAGE_FOLDER "/" FILE                          \
                             "\"\n" GORDIAN_LABEL("gordian_page_" #NAME "_end") ".previous\n"); \
  extern "C" const char gordian_page_##NAME[], gordian_page_##NAME##_end[];

GORDIAN_EMBED(index_html, "index.html")
GORDIAN_EMBED(app_js, "app.js")
GORDIAN_EMBED(app_css, "app.css")
GORDIAN_EMBED(report_html, "report.html")

namespace gordian::dashboard {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

web::PageFiles EmbeddedPage() {
  return {.index_html = Between(gordian_page_index_html, gordian_page_index_html_end),
          .app_js = Between(gordian_page_app_js, gordian_page_app_js_end),
          .app_css = Between(gordian_page_app_css, gordian_page_app_css_end),
          .report_html = Between(gordian_page_report_html, gordian_page_report_html_end)};
}

}  // namespace gordian::dashboard
