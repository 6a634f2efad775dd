// What the two TypeScript drivers share: command line, request, deadline, a view of the wire, report.
//
// The report must hold messages as they were received, but both SDKs drop the fields their schemas do
// not know from serverInfo, capabilities, tools, annotations and content. Asking with a pass-through
// schema would keep the fields and lose the client: output validation, header mirroring, paging and
// retries all live in the typed methods. So the drivers use the typed methods, as applications do, and
// the report quotes the messages seen at the transport beneath them.
//
// Progress is quoted from there too: both SDKs call `onprogress` a moment later, and not at all when the
// result came in the same read, so what reaches the callback depends on timing.

import { readFileSync } from 'node:fs';

const DEADLINE_MS = 60_000;
/// One request may take this long: a probe that is never answered leaves room for the fallback.
export const REQUEST_TIMEOUT_MS = 25_000;
const MODES = ['auto', 'default', 'legacy'];

/// Records every request that passes a transport together with its answer.
class Wire {
  #requests = [];

  /// Watches `transport` and returns it; to be called before a client connects to it.
  watch(transport) {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
      for (const one of [message].flat()) {
        if (one.method !== undefined && one.id !== undefined) {
          const token = one.params?._meta?.progressToken;
          this.#requests.push({ id: one.id, method: one.method, token, progress: [], answer: null });
        }
      }
      return send(message, options);
    };
    // An accessor, because SDK 2.x swaps the handler while it probes. It saves what it reads here and
    // puts it back later, hence `inner`: a handler that was wrapped once is not wrapped again.
    let handler = transport.onmessage;
    Object.defineProperty(transport, 'onmessage', {
      configurable: true,
      enumerable: true,
      get: () => {
        const inner = handler;
        if (inner === undefined) return undefined;
        const outer = (message, extra) => {
          this.#receive(message);
          return inner(message, extra);
        };
        return Object.assign(outer, { inner });
      },
      set: (value) => {
        handler = value?.inner ?? value;
      },
    });
    return transport;
  }

  #receive(message) {
    // A copy: the SDK may edit the message it was given.
    if (message.method === undefined) {
      const request = this.#requests.findLast((one) => one.id === message.id);
      if (request !== undefined) request.answer = structuredClone(message);
    } else if (message.method === 'notifications/progress') {
      const { progressToken, ...progress } = structuredClone(message.params ?? {});
      if (progressToken === undefined) return;
      this.#requests.findLast((one) => one.token === progressToken)?.progress.push(progress);
    }
  }

  /// The number of requests so far: `answers` can start there.
  get mark() {
    return this.#requests.length;
  }

  /// The answers to requests of that method sent since `mark`; null for one that has none.
  answers(method, mark = 0) {
    return this.#requests.slice(mark).filter((one) => one.method === method).map((one) => one.answer);
  }

  /// The progress of all requests since `mark`, without the tokens.
  progress(mark) {
    return this.#requests.slice(mark).flatMap((one) => one.progress);
  }
}

/// Runs a driver. `adapter` supplies what differs between the SDKs:
/// `name`; `connect(target, mode, wire)` gives `{ client, transport }`; `session(client, wire)` gives
/// `{ protocolVersion, era, discover }`; `listTools(client)` gives all tools the SDK hands out;
/// `callTool(client, params, options)`.
export async function run(adapter) {
  const { target, calls, mode } = readRequest(adapter.name);
  const deadline = setTimeout(() => fail(`no report within ${DEADLINE_MS / 1000} s`), DEADLINE_MS);
  const wire = new Wire();
  let peer;
  try {
    peer = await adapter.connect(target, mode, wire);
  } catch (error) {
    fail(`cannot connect: ${describe(error)}`);
  }

  try {
    const report = {
      client: adapter.name,
      ...greeting(adapter.session(peer.client, wire), wire),
      ...(await tools(adapter, peer.client, wire)),
      results: [],
    };
    for (const call of calls) report.results.push(await callTool(adapter, peer.client, call, wire));
    await new Promise((done) => process.stdout.write(`${JSON.stringify(report)}\n`, done));
    await peer.client.close();
  } catch (error) {
    fail(`session failed: ${describe(error)}`);
  }
  clearTimeout(deadline);
  process.exit(0);

  function fail(why) {
    process.stderr.write(`${adapter.name}: ${why}\n`);
    const pid = peer?.transport.pid;
    if (pid) process.kill(pid, 'SIGKILL');
    process.exit(1);
  }
}

function greeting({ protocolVersion, era, discover }, wire) {
  // SDK 2.x probes stdio servers through a second process, which this wire does not show; then what
  // the SDK kept of the answer has to do.
  const seen = wire.answers(era === 'modern' ? 'server/discover' : 'initialize').findLast((one) => one?.result);
  const result = seen?.result ?? discover ?? {};
  return {
    protocolVersion,
    era,
    serverInfo: result.serverInfo ?? result._meta?.['io.modelcontextprotocol/serverInfo'] ?? null,
    capabilities: result.capabilities ?? null,
    instructions: result.instructions ?? null,
  };
}

async function tools(adapter, client, wire) {
  const mark = wire.mark;
  let kept;
  try {
    kept = await adapter.listTools(client);
  } catch (error) {
    return { tools: [], droppedTools: [], toolsError: failure(error, wire.answers('tools/list', mark).at(-1)) };
  }
  const received = wire.answers('tools/list', mark).flatMap((one) => one?.result?.tools ?? []);
  const names = new Set(kept.map((tool) => tool.name));
  return { tools: received, droppedTools: received.map((tool) => tool.name).filter((name) => !names.has(name)) };
}

async function callTool(adapter, client, { name, arguments: args, progress }, wire) {
  const mark = wire.mark;
  // The handler makes the SDK ask for progress.
  const options = { timeout: DEADLINE_MS, ...(progress && { onprogress: () => {} }) };

  let outcome;
  try {
    await adapter.callTool(client, { name, arguments: args }, options);
    outcome = { result: wire.answers('tools/call', mark).at(-1).result };
  } catch (error) {
    outcome = failure(error, wire.answers('tools/call', mark).at(-1));
  }
  return progress ? { ...outcome, progress: wire.progress(mark) } : outcome;
}

/// An error the server sent is `error`; anything else (refused result, timeout) is the SDK's own.
function failure(error, answer) {
  if (answer?.error) return { error: answer.error };
  return { clientError: { code: error.code ?? null, message: describe(error) }, received: answer ?? null };
}

function describe(error) {
  const cause = error.cause ? ` (${describe(error.cause)})` : '';
  return `${error.message || error.code || error}${cause}`;
}

function readRequest(name) {
  const [kind, first, ...rest] = process.argv.slice(2);
  if (first === undefined || !(kind === 'stdio' || (kind === 'http' && rest.length === 0))) {
    usage(name, `use: ${name} http URL | ${name} stdio COMMAND [ARG…]`);
  }
  let request;
  try {
    request = JSON.parse(readFileSync(0, 'utf8'));
  } catch (error) {
    usage(name, `standard input is not one JSON object: ${error.message}`);
  }
  const { calls = [], mode = 'auto' } = request;
  if (!Array.isArray(calls)) usage(name, '"calls" must be a list');
  if (!MODES.includes(mode)) usage(name, `"mode" must be one of ${MODES.join(', ')}`);
  const target = kind === 'http' ? { url: new URL(first) } : { command: first, args: rest };
  return { target, calls, mode };
}

function usage(name, message) {
  process.stderr.write(`${name}: ${message}\n`);
  process.exit(2);
}
