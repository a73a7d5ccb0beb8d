// Driver on the TypeScript client of the 2026-07-28 line. `--mode modern` pins that revision. Steps: see steps.mjs.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { main } from './steps.mjs';

const REVISION = '2026-07-28';

const KINDS = {
  sampling: 'sampling/createMessage',
  elicitation: 'elicitation/create',
  roots: 'roots/list',
};

await main((steps, answer) => {
  const kinds = Object.keys(KINDS).filter((kind) => steps.flags.has(kind));
  const client = new Client(
    { name: 'toolgate-peer', version: '1.0.0' },
    {
      capabilities: Object.fromEntries(kinds.map((kind) => [kind, {}])),
      versionNegotiation: { mode: steps.mode === 'modern' ? { pin: REVISION } : steps.mode },
    },
  );
  for (const kind of kinds) client.setRequestHandler(KINDS[kind], async (request) => answer(kind, request));
  return {
    client,
    connect: async () => {
      await client.connect(new StdioClientTransport({ command: steps.command, args: steps.args }));
      return { protocolVersion: client.getNegotiatedProtocolVersion() };
    },
    call: (params, options) => client.callTool(params, options),
  };
});
