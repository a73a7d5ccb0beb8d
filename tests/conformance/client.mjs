// The client that the conformance suite tests: an official client before `toolgate serve`, whose server is the suite's.
//   node client.mjs TOOLGATE CLIENT REVISION URL
// TOOLGATE is the program, CLIENT the module of `@modelcontextprotocol/client`; the suite appends the URL of its server.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MODERN = '2026-07-28';
const [toolgate, module, revision, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const { Client, StreamableHTTPClientTransport } = await import(module);

/** Starts the gateway; gives its address. */
async function serve(folder) {
  const config = join(folder, 'toolgate.toml');
  writeFileSync(config, `[servers.suite]\nurl = ${JSON.stringify(url)}\n`);
  const env = { ...process.env, XDG_STATE_HOME: join(folder, 'state') };
  const child = spawn(toolgate, ['serve', config, '--listen', '127.0.0.1:0'], { env });
  process.on('exit', () => child.kill('SIGKILL'));
  const address = await new Promise((resolve, reject) => {
    let told = '';
    child.stderr.on('data', (more) => {
      told += more;
      const found = /listening on (http:\/\/\S+\/mcp)/.exec(told);
      if (found) resolve(found[1]);
    });
    child.on('exit', () => reject(new Error(`toolgate ended: ${told}`)));
  });
  return { child, address };
}

/** A value that fits a schema. */
function sample(schema) {
  if (schema.default !== undefined) return schema.default;
  switch (schema.type) {
    case 'object': {
      const names = schema.required ?? [];
      return Object.fromEntries(names.map((name) => [name, sample(schema.properties?.[name] ?? {})]));
    }
    case 'array':
      return [];
    case 'boolean':
      return true;
    case 'number':
    case 'integer':
      return 5;
    default:
      return 'x';
  }
}

/** Everything that the schema of a question has a default for. */
function defaults(schema) {
  const all = Object.entries(schema?.properties ?? {}).filter(([, property]) => property.default !== undefined);
  return Object.fromEntries(all.map(([name, property]) => [name, property.default]));
}

async function talk(client) {
  const { tools } = await client.listTools();
  const offers = client.getServerCapabilities() ?? {};
  if (offers.resources) {
    const { resources } = await client.listResources();
    for (const { uri } of resources) await client.readResource({ uri });
  }
  if (offers.prompts) {
    const { prompts } = await client.listPrompts();
    for (const { name } of prompts) await client.getPrompt({ name, arguments: {} });
  }
  let calls = context.toolCalls;
  if (scenario === 'json-schema-2020-12-preservation') {
    const [focal, echo] = tools;
    calls = [{ name: echo.name, arguments: { schema: focal.inputSchema } }];
  }
  calls ??= tools.map(({ name, inputSchema }) => ({ name, arguments: sample(inputSchema) }));
  for (const call of calls) await client.callTool(call);
}

const folder = mkdtempSync(join(tmpdir(), 'toolgate-conformance-'));
const { child, address } = await serve(folder);
try {
  const negotiation = revision === MODERN ? { mode: { pin: MODERN } } : { mode: 'legacy' };
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  const client = new Client(
    { name: 'toolgate-conformance', version: '1.0.0' },
    { capabilities, versionNegotiation: negotiation },
  );
  client.setRequestHandler('elicitation/create', async ({ params }) => ({
    action: 'accept',
    content: defaults(params.requestedSchema),
  }));
  client.setRequestHandler('sampling/createMessage', async () => ({
    model: 'none',
    role: 'assistant',
    content: { type: 'text', text: 'x' },
  }));
  client.setRequestHandler('roots/list', async () => ({ roots: [] }));
  await client.connect(new StreamableHTTPClientTransport(new URL(address)));
  await talk(client);
  await client.close();
} finally {
  child.removeAllListeners('exit');
  const ended = new Promise((resolve) => child.on('exit', resolve));
  child.kill('SIGTERM');
  await ended;
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
