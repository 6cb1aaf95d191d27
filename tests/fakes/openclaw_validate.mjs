// Prints for each configuration file whether OpenClaw accepts it, as `openclaw config validate` does, but in one process.
//   node openclaw_validate.mjs <the package's directory> <file>...

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [directory, ...files] = process.argv.slice(2);
const path = createRequire(join(directory, "package.json")).resolve("openclaw/plugin-sdk/config-runtime");
const { readConfigFileSnapshotForWrite } = await import(pathToFileURL(path));
const accepted = [];
for (const file of files) {
  process.env.OPENCLAW_CONFIG_PATH = file;
  const { snapshot } = await readConfigFileSnapshotForWrite();
  accepted.push(snapshot.path === file && snapshot.valid);
}
process.stdout.write(`\n${JSON.stringify(accepted)}`, () => process.exit());
