// Drives one session with the TypeScript SDK 1.x, which knows the handshake era only: "mode" is ignored.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { REQUEST_TIMEOUT_MS, run } from './driver.mjs';

const MAX_PAGES = 100;

await run({
  name: 'ts1',

  async connect({ url, command, args }, _mode, wire) {
    // The SDK passes on a few variables only; a test must be able to set any.
    const transport = wire.watch(
      url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport({ command, args, env: process.env }),
    );
    const client = new Client({ name: 'manifold-peer-ts1', version: '1.0.0' });
    await client.connect(transport, { timeout: REQUEST_TIMEOUT_MS });
    return { client, transport };
  },

  session(_client, wire) {
    return { protocolVersion: wire.answers('initialize').at(-1).result.protocolVersion, era: 'legacy' };
  },

  async listTools(client) {
    const tools = [];
    let cursor;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { tools: some, nextCursor } = await client.listTools({ cursor });
      tools.push(...some);
      if (nextCursor === undefined) return tools;
      cursor = nextCursor;
    }
    throw new Error(`the tool list has more than ${MAX_PAGES} pages`);
  },

  callTool: (client, params, options) => client.callTool(params, undefined, options),
});
