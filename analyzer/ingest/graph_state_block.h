// From the messages of a state block to the facts that the wait model takes. Trusts nothing in
// them.
#ifndef GORDIAN_ANALYZER_INGEST_GRAPH_STATE_BLOCK_H_
#define GORDIAN_ANALYZER_INGEST_GRAPH_STATE_BLOCK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "analyzer/model/facts/state_block.h"
#include "gordian/v1/event.pb.h"

namespace gordian::analyzer {

// What a call's number means in this trace.
using CallMeaning = std::function<model::Call(uint32_t call)>;

// Null for a block that makes no sense: the same as none.
std::shared_ptr<const model::StateBlock> TranslateBlock(const v1::StateBlock& block,
                                                        const CallMeaning& meaning);
std::shared_ptr<const model::CallDetail> TranslateDetail(const v1::CallDetail& detail);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_GRAPH_STATE_BLOCK_H_
