// Driver on the TypeScript SDK of the 1.x line, which ends at protocol 2025-11-25. Steps: see steps.mjs.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { main } from './steps.mjs';

const KINDS = {
  sampling: CreateMessageRequestSchema,
  elicitation: ElicitRequestSchema,
  roots: ListRootsRequestSchema,
};

await main((steps, answer) => {
  if (steps.mode !== 'legacy') throw new Error('this SDK has no mode but legacy');
  const kinds = Object.keys(KINDS).filter((kind) => steps.flags.has(kind));
  const client = new Client(
    { name: 'toolgate-peer', version: '1.0.0' },
    { capabilities: Object.fromEntries(kinds.map((kind) => [kind, {}])) },
  );
  for (const kind of kinds) client.setRequestHandler(KINDS[kind], async (request) => answer(kind, request));
  return {
    client,
    connect: async () => {
      const transport = new StdioClientTransport({ command: steps.command, args: steps.args });
      // The client keeps the negotiated version to itself, and tells it only to its transport.
      let protocolVersion;
      transport.setProtocolVersion = (version) => {
        protocolVersion = version;
      };
      await client.connect(transport);
      return { protocolVersion };
    },
    call: (params, options) => client.callTool(params, undefined, options),
    follow: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
  };
});
