#include "replayer/record/signature.h"

#include <set>
#include <string>

namespace gordian::replayer {

Signature SignatureOf(const model::Verdict& verdict) {
  Signature signature;
  signature.verdict = model::Name(verdict.main.verdict);
  std::set<std::string> edges;
  for (const model::WaitEdge& edge : verdict.main.cycle) edges.insert(model::Name(edge.reason));
  signature.edges.assign(edges.begin(), edges.end());
  return signature;
}

}  // namespace gordian::replayer
