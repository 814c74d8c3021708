// Maps a library symbol to its meaning in the wait model, by name and not by number: another
// version numbers its calls differently.
//
// Threads: any. Errors: none.
#ifndef GORDIAN_ANALYZER_STACKS_CALL_SYMBOLS_H_
#define GORDIAN_ANALYZER_STACKS_CALL_SYMBOLS_H_

#include <string_view>

#include "analyzer/model/verdict/job_model.h"
#include "proto/ring/record.h"

namespace gordian::analyzer {

// kOther for symbols that the model does not know.
model::Call CallFromSymbol(std::string_view symbol);

// What its kBegin and kPoint records carry; kNone for symbols that the table does not have.
ring::PayloadKind PayloadFromSymbol(std::string_view symbol);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_CALL_SYMBOLS_H_
