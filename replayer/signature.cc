#include "replayer/signature.h"

#include <set>
#include <string>

namespace gordian::replayer {

Signature SignatureOf(const graph::Verdict& verdict) {
  Signature signature;
  signature.verdict = graph::Name(verdict.main.verdict);
  std::set<std::string> edges;
  for (const graph::WaitEdge& edge : verdict.main.cycle) edges.insert(edge.reason);
  signature.edges.assign(edges.begin(), edges.end());
  return signature;
}

}  // namespace gordian::replayer
