// A verdict as text for people.
#ifndef GORDIAN_ANALYZER_SERVER_REPORT_H_
#define GORDIAN_ANALYZER_SERVER_REPORT_H_

#include <string>

#include "analyzer/graph/verdict.h"
#include "analyzer/server/call_sites.h"

namespace gordian::server {

struct ReportOptions {
  bool color = false;   // ANSI colours
  int width = 100;      // columns, at least 80
  std::string session;  // for the next command to type; empty: no such line
};

// One line: "gordian: DEADLOCK (confirmed after 0.21 s): rank 0 waits for rank 1, which waits for
// rank 0"; the time is from the last progress. Never longer than options.width.
std::string Headline(const graph::Finding& finding, const ReportOptions& options = {});

// One screen: headline, the witness drawn in text with both sides' call sites, victims, what was
// not seen or is assumed, what to change, the next command. Ends with a newline.
std::string ReportText(const graph::Verdict& verdict, const SiteResolver& sites,
                       const ReportOptions& options = {});

// The part of it that says where the threads are, a few lines for each folded stack; "" when that
// is not known. For whoever has told the rest before.
std::string StacksText(const graph::Verdict& verdict, const ReportOptions& options = {});

// The long form of `gordian explain`: the same, then every stuck operation with who joined, who has
// not and what each of those does instead, further findings, the stacks and the evidence in full.
std::string ExplainText(const graph::Verdict& verdict, const SiteResolver& sites,
                        const ReportOptions& options = {});

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_REPORT_H_
