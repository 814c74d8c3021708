// Renders a verdict as text for people.
#ifndef GORDIAN_ANALYZER_REPORT_REPORT_H_
#define GORDIAN_ANALYZER_REPORT_REPORT_H_

#include <string>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::analyzer {

struct ReportOptions {
  bool color = false;   // ANSI colours
  int width = 100;      // columns, at least 80
  std::string session;  // for the next command to type; empty: no such line
};

// One line: "gordian: DEADLOCK (confirmed after 0.21 s): rank 0 waits for rank 1, which waits for
// rank 0". The seconds count from the last progress. Never longer than options.width.
std::string Headline(const model::Finding& finding, const ReportOptions& options = {});

// The same in full, on as many lines as it takes; ends with a newline.
std::string SentenceText(const model::Finding& finding, const ReportOptions& options = {});

// Of a job that calls NCCL at some of its ranks only, as far as gordian sees: "gordian: 1 of 2 ranks
// seen; ..."; "" if all are seen.
std::string UnseenRanksText(const model::Finding& finding, const ReportOptions& options = {});

// One screen: headline, witness with the call sites of both sides, victims, what gordian did not
// see or assumes, what to change, the next command. Ends with a newline.
std::string ReportText(const model::Verdict& verdict, const SiteResolver& sites,
                       const ReportOptions& options = {});

// A finding beside one that a report has shown, in a few lines: "gordian: also RANK EXITED
// (confirmed after 0.03 s): rank 3 has exited with code 3; rank 2 waits in AllReduce #1 on dp."
std::string FurtherText(const model::Finding& finding, const ReportOptions& options = {});

// Only the part about confirmed deadlocks that ended after all; "" if there are none.
std::string DisprovedText(const model::Verdict& verdict, const ReportOptions& options = {});

// Only the part about where the threads are, a few lines per folded stack; "" if there are no
// stacks. For callers that have printed the rest before.
std::string StacksText(const model::Verdict& verdict, const ReportOptions& options = {});

// The long form of `gordian explain`: ReportText, then every stuck operation with the members that
// have joined, those that have not and what each of them does instead, further findings, all stacks
// and evidence.
std::string ExplainText(const model::Verdict& verdict, const SiteResolver& sites,
                        const ReportOptions& options = {});

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_REPORT_H_
