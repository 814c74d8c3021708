// What a library symbol means to the wait model. Names, not numbers: a trace of another version
// numbers its calls differently.
//
// Thread rule: any thread. Errors: none.
#ifndef GORDIAN_ANALYZER_SERVER_CALL_SYMBOLS_H_
#define GORDIAN_ANALYZER_SERVER_CALL_SYMBOLS_H_

#include <string_view>

#include "analyzer/graph/job_model.h"

namespace gordian::server {

// kOther for symbols that the model does not know.
graph::Call CallFromSymbol(std::string_view symbol);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_CALL_SYMBOLS_H_
