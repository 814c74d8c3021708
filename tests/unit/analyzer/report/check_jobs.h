// For every check a job, or what is seen of one, that makes it speak: what tests/golden/checks and
// docs/checks show. The jobs are simulated (tests/unit/model/sim/sim_job.h) and the verdicts the
// model's own.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_REPORT_CHECK_JOBS_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_REPORT_CHECK_JOBS_H_

#include <string>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::testing {

// Of a sign, a verdict that has it. Fails the running test when there is no job for the check.
model::Verdict VerdictOf(const std::string& check);

// "job.cc:12": a call of a simulated program.
std::string SiteOfJob(const model::Site& site);

}  // namespace gordian::testing

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_REPORT_CHECK_JOBS_H_
