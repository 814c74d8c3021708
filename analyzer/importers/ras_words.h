// Reads reports of NCCL's RAS subsystem in words, as every release from 2.24 on prints them without
// `-f json`.
//
// Facts of the format: rasClientRunInit and rasClientRunComms in NCCL's src/ras/client_support.cc.
// The table "Communicators" gives sizes, "Errors" the processes and ranks that are missing,
// "Warnings" the ranks of a communicator that differ from others in status or in counts: of all
// functions together in 2.24, of each function from 2.26 on. Ranks that are many, or do not differ,
// are only counted. A report in words has no time.
#ifndef GORDIAN_ANALYZER_IMPORTERS_RAS_WORDS_H_
#define GORDIAN_ANALYZER_IMPORTERS_RAS_WORDS_H_

#include <string_view>

#include "analyzer/importers/ras.h"
#include "common/status.h"

namespace gordian::importers {

// Only the communicators that the report speaks of, with the members whose counts it gives. Errors
// name the fault: the report ends before its last section.
StatusOr<RasReport> ParseRasWords(std::string_view bytes);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_RAS_WORDS_H_
