// Driver on the TypeScript client of the 2026-07-28 line. `--mode modern` pins that revision. A version of before is
// asked for with initialize. Steps: see steps.mjs.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { main } from './steps.mjs';

const REVISION = '2026-07-28';

const KINDS = {
  sampling: 'sampling/createMessage',
  elicitation: 'elicitation/create',
  roots: 'roots/list',
};

/** How this mode chooses a version, as options of the client. */
function negotiation(mode) {
  if (mode === 'modern') return { versionNegotiation: { mode: { pin: REVISION } } };
  if (mode === 'legacy' || mode === 'auto') return { versionNegotiation: { mode } };
  return { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [mode] };
}

await main((steps, answer) => {
  const kinds = Object.keys(KINDS).filter((kind) => steps.flags.has(kind));
  const client = new Client(
    { name: 'toolgate-peer', version: '1.0.0' },
    {
      capabilities: Object.fromEntries(kinds.map((kind) => [kind, {}])),
      ...negotiation(steps.mode),
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
    follow: async (uri) => {
      if (client.getNegotiatedProtocolVersion() === REVISION) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        return () => subscription.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
  };
});
