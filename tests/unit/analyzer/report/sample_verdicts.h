// Verdicts made by hand, one for each thing a report must be able to say.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_REPORT_SAMPLE_VERDICTS_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_REPORT_SAMPLE_VERDICTS_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::testing {

struct Sample {
  std::string name;  // of its golden files
  model::Verdict verdict;
};

std::vector<Sample> Samples();

// Texts for the sites in the samples.
analyzer::SiteResolver SampleSites();

}  // namespace gordian::testing

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_REPORT_SAMPLE_VERDICTS_H_
