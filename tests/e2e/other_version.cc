// An analyzer of another version, for collectors of this one. Prints its port; ends with its input.
#include <cstdio>

#include "analyzer/fleet/fleet_server.h"
#include "common/log.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s VERSION FOLDER\n", argv[0]);
    return 2;
  }
  gordian::SilenceLog();
  gordian::analyzer::FleetServer server;
  gordian::analyzer::FleetOptions options;
  options.listen = "127.0.0.1:0";
  options.gordian_version = argv[1];
  options.sessions_dir = argv[2];
  const gordian::Status status = server.Start(std::move(options));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
