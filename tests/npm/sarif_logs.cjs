// Holds SARIF logs, a JSON array on stdin, against the schema that OASIS published for SARIF 2.1.0.
//
//   node sarif_logs.cjs FOLDER_OF_NODE_MODULES
const fs = require("node:fs");
const path = require("node:path");

const modules = path.join(process.argv[2], "node_modules");
const get = require("node:module").createRequire(path.join(modules, "x"));
const Ajv = get("ajv-draft-04").default;

const schema = JSON.parse(
  fs.readFileSync(path.join(modules, "@microsoft", "jest-sarif", "lib", "schemas", "sarif-2.1.0-rtm.5.json")),
);
// Formats, of URIs and dates, are another package's. A pattern of the schema is none in Unicode's mode.
const valid = new Ajv({ strict: false, allErrors: true, validateFormats: false, unicodeRegExp: false }).compile(schema);
for (const log of JSON.parse(fs.readFileSync(0, "utf8"))) {
  if (!valid(log)) {
    for (const error of valid.errors) console.log(`${error.instancePath}: ${error.message}`);
    process.exitCode = 1;
  }
}
