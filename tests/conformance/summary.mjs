// Reads the results of one run of the conformance suite: node summary.mjs FOLDER [EXPECTED-FAILURES]
// One line for each scenario, with the checks that failed below it. Ends with 1 if a check fails that is not expected to,
// or if one that is expected to fail does not.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const [folder, expectedFile] = process.argv.slice(2);
const lines = expectedFile ? readFileSync(expectedFile, 'utf8').split('\n') : [];
const expected = new Set(lines.map((line) => line.replace(/#.*/, '').trim()).filter(Boolean));
const met = new Set();

// A folder is named for its scenario and the time of the run.
const name = (entry) => entry.replace(/^server-/, '').replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, '');
const runs = readdirSync(folder)
  .filter((entry) => existsSync(join(folder, entry, 'checks.json')))
  .map((entry) => [name(entry), JSON.parse(readFileSync(join(folder, entry, 'checks.json'), 'utf8'))]);
runs.sort(([left], [right]) => (left < right ? -1 : 1));

let passed = 0;
let failed = 0;
let wrong = 0;
for (const [scenario, checks] of runs) {
  const good = checks.filter((check) => check.status === 'SUCCESS').length;
  const bad = checks.filter((check) => check.status === 'FAILURE' || check.status === 'WARNING');
  passed += good;
  failed += bad.length;
  console.log(`${scenario}: ${good} passed, ${bad.length} failed`);
  for (const check of bad) {
    const known = [scenario, `${scenario}:${check.id}`].filter((entry) => expected.has(entry));
    known.forEach((entry) => met.add(entry));
    if (known.length === 0) wrong += 1;
    const how = known.length > 0 ? 'as expected' : check.status.toLowerCase();
    console.log(`  ${check.id}: ${how}: ${String(check.errorMessage ?? check.description).slice(0, 2000)}`);
  }
}
for (const entry of expected) {
  if (met.has(entry)) continue;
  wrong += 1;
  console.log(`${entry}: passes, but is listed in ${expectedFile} as failing`);
}
if (runs.length === 0) {
  wrong += 1;
  const log = join(folder, 'log.txt');
  console.log(existsSync(log) ? readFileSync(log, 'utf8').slice(-4000) : 'no results');
}
console.log(`total: ${runs.length} scenarios, ${passed} checks passed, ${failed} failed, ${wrong} not as expected`);
process.exit(wrong === 0 ? 0 : 1);
