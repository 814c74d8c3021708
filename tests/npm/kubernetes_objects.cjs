// Reads YAML documents from stdin and checks each against the Kubernetes API's schema of its kind
// (kubernetes-models: 1.27), in which a field that the schema does not list is an error.
//
//   node kubernetes_objects.cjs FOLDER_OF_NODE_MODULES
//
// Exit code: 0 all are valid; 1 not, with a line for each error.
const fs = require("node:fs");
const path = require("node:path");

const get = require("node:module").createRequire(path.join(process.argv[2], "node_modules", "x"));
const yaml = get("js-yaml");
// The models' own packages: each has the one that it was made for.
const models = path.dirname(get.resolve("kubernetes-models/package.json"));
const validate = require("node:module").createRequire(path.join(models, "x"))("@kubernetes-models/validate");

// Closes a schema: lists of fields allow no others, unless the schema says what they may be.
function close(schema) {
  if (Array.isArray(schema)) return schema.map(close);
  if (schema === null || typeof schema !== "object") return schema;
  const closed = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, close(value)]));
  const open = schema["x-kubernetes-preserve-unknown-fields"] || schema.additionalProperties !== undefined;
  if (schema.properties && typeof schema.properties === "object" && !open) closed.additionalProperties = false;
  return closed;
}

const register = validate.register;
validate.register = (id, schema) => register(id, close(schema));

function problemsOf(object) {
  const where = `${object.apiVersion} ${object.kind} ${object.metadata?.name}`;
  let kinds = {};
  try {
    kinds = get(`kubernetes-models/${object.apiVersion}`);
  } catch {
    return [`${where}: the API has no such version`];
  }
  if (!kinds[object.kind]?.apiVersion) return [`${where}: the API has no such kind`];
  try {
    new kinds[object.kind](object).validate();
    return [];
  } catch (error) {
    if (!error.errors) throw error;
    return error.errors.map((one) => {
      const field = one.params?.additionalProperty ? ` (${one.params.additionalProperty})` : "";
      return `${where}: ${one.instancePath} ${one.message}${field}`;
    });
  }
}

const objects = yaml.loadAll(fs.readFileSync(0, "utf8")).filter((object) => object !== null);
const problems = objects.flatMap(problemsOf);
for (const problem of problems) console.log(problem);
console.log(`${objects.length} objects, ${problems.length} problems`);
process.exit(problems.length > 0 ? 1 : 0);
