// Reads requests of OTLP/HTTP's JSON from stdin, one a line, and compares each with what OpenTelemetry's
// own protobuf definitions make of it: a field that they do not have, or a value of another type, is
// gone or changed when it has gone through the binary format.
//
//   node otlp_requests.cjs FOLDER_OF_NODE_MODULES
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");

const get = require("node:module").createRequire(path.join(process.argv[2], "node_modules", "x"));
const root = get("@opentelemetry/otlp-transformer/build/src/generated/root.js");
const Request = root.opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest;

const lines = fs.readFileSync(0, "utf8").split("\n").filter((line) => line !== "");
for (const line of lines) {
  const sent = JSON.parse(line);
  const message = Request.fromObject(sent);
  assert.strictEqual(Request.verify(message), null);
  const read = Request.decode(Request.encode(message).finish());
  // 64-bit numbers are texts, enumerations numbers, and what is not set is left out.
  const back = JSON.parse(JSON.stringify(Request.toObject(read, { longs: String, enums: Number })));
  assert.deepStrictEqual(back, sent);
}
console.log(`${lines.length} requests`);
