// A board over Streamable HTTP with the TypeScript SDK 2: 2026-07-28 only, no sessions.
//
// usage: board_http.mjs PORT
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, ResourceTemplate, createMcpHandler } from '@modelcontextprotocol/server';
import { z } from 'zod';

const today = { uri: 'note://today', mimeType: 'text/plain' };
const text = (text) => ({ content: [{ type: 'text', text }] });

function board() {
  const server = new McpServer({ name: 'board', version: '1.0.0' });

  server.registerTool(
    'pin',
    { description: 'Answers with a text, a link and a resource.', inputSchema: z.object({ title: z.string() }) },
    async ({ title }) => ({
      content: [
        { type: 'text', text: `pinned ${title}; see note://today` },
        { type: 'resource_link', name: 'today', ...today },
        { type: 'resource', resource: { ...today, text: 'the TypeScript SDK wrote this' } },
      ],
    }),
  );
  server.registerTool(
    'add',
    { description: 'Has the name of a tool of the other sample.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    async ({ a, b }) => text(String(a + b)),
  );

  // The same URI and the same template as in the other sample.
  server.registerResource('today', today.uri, { mimeType: today.mimeType }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'the TypeScript SDK wrote this' }],
  }));
  server.registerResource(
    'by-title',
    new ResourceTemplate('note://by-title/{title}', { list: undefined }),
    { mimeType: 'text/plain' },
    async (uri, { title }) => ({
      contents: [{ uri: uri.href, mimeType: 'text/plain', text: `the TypeScript SDK wrote ${title}` }],
    }),
  );
  server.registerPrompt(
    'summarize',
    { description: 'Asks for a summary.', argsSchema: z.object({ topic: z.string() }) },
    ({ topic }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Summarize the board: ${topic}.` } }] }),
  );
  return server;
}

const handler = createMcpHandler(board, { legacy: 'reject' });
createServer(toNodeHandler(handler)).listen(Number(process.argv[2]), '127.0.0.1');
