// Reads requests of OTLP/HTTP's JSON, of metrics or traces, from stdin, one a line, and compares each with what OpenTelemetry's
// own protobuf definitions make of it: a field that they do not have, or a value of another type, is
// gone or changed when it has gone through the binary format.
//
//   node otlp_requests.cjs FOLDER_OF_NODE_MODULES
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");

const get = require("node:module").createRequire(path.join(process.argv[2], "node_modules", "x"));
const root = get("@opentelemetry/otlp-transformer/build/src/generated/root.js");
const collector = root.opentelemetry.proto.collector;
const kMetrics = collector.metrics.v1.ExportMetricsServiceRequest;
const kTraces = collector.trace.v1.ExportTraceServiceRequest;

// OTLP's JSON has ids in hexadecimal, protobuf's in base 64.
function withIds(request, from, to) {
  const changed = structuredClone(request);
  for (const resource of changed.resourceSpans ?? [])
    for (const scope of resource.scopeSpans)
      for (const span of scope.spans)
        for (const id of ["traceId", "spanId"]) span[id] = Buffer.from(span[id], from).toString(to);
  return changed;
}

const lines = fs.readFileSync(0, "utf8").split("\n").filter((line) => line !== "");
for (const line of lines) {
  const sent = JSON.parse(line);
  const Request = "resourceSpans" in sent ? kTraces : kMetrics;
  const message = Request.fromObject(withIds(sent, "hex", "base64"));
  assert.strictEqual(Request.verify(message), null);
  const read = Request.decode(Request.encode(message).finish());
  // 64-bit numbers are texts, enumerations numbers, and what is not set is left out.
  const back = JSON.parse(JSON.stringify(Request.toObject(read, { longs: String, enums: Number, bytes: String })));
  assert.deepStrictEqual(withIds(back, "base64", "hex"), sent);
}
console.log(`${lines.length} requests`);
