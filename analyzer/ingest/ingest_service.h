// The gRPC side of the analyzer: Ingest (collectors, one stream a node) and Analysis (people)
// around one job's analysis, and the clock of the rounds.
//
// Rounds, while anything is unfinished: one every 100 ms; when the last one found something stuck
// that another could confirm, 20 ms after its end; else every 500 ms. The next round is asked for
// only when every node has answered the last (or its stream has died, or it sent nothing for
// round_timeout), so no two rounds overlap: what the proof rests on.
#ifndef GORDIAN_ANALYZER_INGEST_INGEST_SERVICE_H_
#define GORDIAN_ANALYZER_INGEST_INGEST_SERVICE_H_

#include <chrono>
#include <memory>
#include <string>

#include "analyzer/ingest/round_pace.h"
#include "analyzer/ingest/stream_guard.h"
#include "analyzer/session/analysis.h"
#include "common/status.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::analyzer {

struct ServerOptions {
  AnalysisOptions analysis;
  RoundPace pace;
  StreamLimits streams;
  std::string listen;  // HOST:PORT, port 0: any; empty: in-process only
  // Also listen on a unix socket of this name in analysis.folder, for this user alone, until Stop;
  // empty: none. One that cannot be made is named in the log and done without.
  std::string socket;
};

// An analyzer in this process. All methods may be called from any thread; Start once.
//
//   EmbeddedServer server;
//   GORDIAN_RETURN_IF_ERROR(server.Start(options));
//   collector_options.channel = server.InProcessChannel();
//   ... the collector has been stopped:
//   server.Stop();
//
// Analysis::Finish is called by Stop: the last verdict.json and the closed trace are there when it
// returns.
class EmbeddedServer {
 public:
  EmbeddedServer();
  ~EmbeddedServer();  // Stop(), unless the owner did
  EmbeddedServer(const EmbeddedServer&) = delete;
  EmbeddedServer& operator=(const EmbeddedServer&) = delete;

  // Error: the address cannot be listened on.
  Status Start(ServerOptions options);

  // Null before Start and after Stop.
  std::shared_ptr<grpc::Channel> InProcessChannel();
  int port() const;  // of ServerOptions::listen; 0: none

  // Null before Start; stays valid after Stop.
  Analysis* analysis();

  // Ends streams that are still open, after they had `grace` to end by themselves.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(500));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_INGEST_SERVICE_H_
