// Drives one session with the TypeScript SDK 2.x. "auto" makes it ask `server/discover` first;
// "default" leaves the choice to the SDK, which then speaks the handshake era like "legacy".

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { REQUEST_TIMEOUT_MS, run } from './driver.mjs';

await run({
  name: 'ts2',

  async connect({ url, command, args }, mode, wire) {
    // The SDK passes on a few variables only; a test must be able to set any.
    const transport = wire.watch(
      url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport({ command, args, env: process.env }),
    );
    const client = new Client(
      { name: 'manifold-peer-ts2', version: '1.0.0' },
      mode === 'default' ? {} : { versionNegotiation: { mode } },
    );
    await client.connect(transport, { timeout: REQUEST_TIMEOUT_MS });
    return { client, transport };
  },

  session: (client) => ({
    protocolVersion: client.getNegotiatedProtocolVersion(),
    era: client.getProtocolEra(),
    discover: client.getDiscoverResult(),
  }),

  // The SDK follows the cursors by itself.
  listTools: async (client) => (await client.listTools()).tools,

  callTool: (client, params, options) => client.callTool(params, options),
});
