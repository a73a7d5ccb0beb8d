// What every JavaScript driver does: read the steps from the command line, run them over one connection, print one JSON
// object. The drivers themselves only bind an SDK to the small `peer` object that `main` takes.

/** Longer than any update takes to come. */
const PATIENCE = 20_000;

const USAGE = `usage: DRIVER [OPTIONS] -- COMMAND [ARGS...]
  --mode legacy|auto|modern   how the protocol version is chosen (default legacy); or a version of before 2026,
                              which is asked for with initialize
  --call NAME JSON            call a tool; may be given many times
  --parallel                  start all calls at once instead of one after the other
  --progress                  ask for progress notifications, and print them with the call
  --cancel-after-progress     cancel each call at its first progress notification
  --sampling --elicitation --roots   answer these requests of the server with fixed values
  --decline                   can be asked for a confirmation, and always says no
  --resources                 list resources and templates
  --read URI                  read a resource; may be given many times
  --prompts                   list prompts
  --prompt NAME JSON          get a prompt; may be given many times
  --complete PROMPT ARG TEXT  complete a prompt's argument; may be given many times
  --complete-uri URI ARG TEXT complete a resource template's argument; may be given many times
  --follow URI NAME JSON TEXT subscribe to a resource or listen for it, call a tool, and read again at each
                              update until TEXT is a line of the resource; then stop
`;

export const ANSWERS = {
  sampling: {
    role: 'assistant',
    model: 'fixed',
    stopReason: 'endTurn',
    content: { type: 'text', text: 'a fixed answer' },
  },
  elicitation: { action: 'accept', content: { name: 'Ada', check: true, integer: 7, confirm: true } },
  roots: { roots: [{ uri: 'file:///tmp', name: 'tmp' }] },
};

class Usage extends Error {}

function parse(argv) {
  const steps = { mode: 'legacy', calls: [], reads: [], follows: [], prompts: [], completions: [], flags: new Set() };
  const rest = [...argv];
  const next = (option) => {
    if (rest.length === 0) throw new Usage(`${option} needs another argument`);
    return rest.shift();
  };
  const json = (option) => {
    const text = next(option);
    try {
      return JSON.parse(text);
    } catch {
      throw new Usage(`${option}: not JSON: ${text}`);
    }
  };
  while (rest.length > 0) {
    const option = rest.shift();
    switch (option) {
      case '--':
        [steps.command, ...steps.args] = rest.splice(0);
        break;
      case '--mode':
        steps.mode = next(option);
        if (!/^(legacy|auto|modern|202[45]-\d\d-\d\d)$/.test(steps.mode)) throw new Usage(`unknown mode ${steps.mode}`);
        break;
      case '--call':
        steps.calls.push({ name: next(option), arguments: json(option) });
        break;
      case '--read':
        steps.reads.push(next(option));
        break;
      case '--prompt':
        steps.prompts.push({ name: next(option), arguments: json(option) });
        break;
      case '--complete':
        steps.completions.push({
          ref: { type: 'ref/prompt', name: next(option) },
          argument: { name: next(option), value: next(option) },
        });
        break;
      case '--complete-uri':
        steps.completions.push({
          ref: { type: 'ref/resource', uri: next(option) },
          argument: { name: next(option), value: next(option) },
        });
        break;
      case '--follow':
        steps.follows.push({ uri: next(option), name: next(option), arguments: json(option), text: next(option) });
        break;
      case '--decline':
        steps.flags.add('elicitation');
        steps.flags.add('decline');
        break;
      case '--parallel':
      case '--progress':
      case '--cancel-after-progress':
      case '--sampling':
      case '--elicitation':
      case '--roots':
      case '--resources':
      case '--prompts':
        steps.flags.add(option.slice(2));
        break;
      default:
        throw new Usage(`unknown option ${option}`);
    }
  }
  if (!steps.command) throw new Usage('no command after --');
  return steps;
}

/** Either `{ result }` or `{ error: { code, message } }`; what is undefined is left out by JSON. */
async function outcome(promise) {
  try {
    return { result: await promise };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

/** All pages of a list method, whichever way the SDK hands them out. */
async function pages(list, member) {
  const items = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    items.push(...page[member]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return items;
}

async function call(peer, steps, params, report) {
  const options = {};
  const progress = [];
  const cancel = new AbortController();
  if (steps.flags.has('progress') || steps.flags.has('cancel-after-progress')) {
    options.onprogress = (step) => {
      progress.push(step);
      report.notifications.push('notifications/progress');
      if (steps.flags.has('cancel-after-progress')) cancel.abort('cancelled by the driver');
    };
    options.signal = cancel.signal;
  }
  const done = await outcome(peer.call(params, options));
  return options.onprogress ? { ...done, progress } : done;
}

async function calls(peer, steps, report) {
  const run = async (params, index) => {
    report.calls[index] = await call(peer, steps, params, report);
    report.finished.push(index);
  };
  if (steps.flags.has('parallel')) {
    await Promise.all(steps.calls.map(run));
    return;
  }
  for (const [index, params] of steps.calls.entries()) await run(params, index);
}

async function all(items, run) {
  const done = [];
  for (const item of items) done.push(await outcome(run(item)));
  return done;
}

/** Counts the updates of resources, and lets one wait for the next. */
function updates() {
  const seen = [];
  let wake = () => {};
  return {
    seen,
    add(uri) {
      seen.push(uri);
      wake();
    },
    async after(count) {
      while (seen.length <= count) {
        await new Promise((resolve, reject) => {
          wake = resolve;
          setTimeout(reject, PATIENCE, new Error(`no update after ${PATIENCE} ms`)).unref();
        });
      }
      return seen.length;
    },
  };
}

async function follow(peer, { uri, text, ...call }) {
  const stop = await peer.follow(uri);
  let count = peer.updates.seen.length;
  await peer.call(call);
  for (;;) {
    count = await peer.updates.after(count);
    const read = await peer.client.readResource({ uri });
    if (!read.contents[0].text.split('\n').includes(text)) continue;
    await stop();
    return { ...read, updates: peer.updates.seen };
  }
}

/** Notes the ids of requests that the SDK cancels. It uses the id of a request as its progress token. */
function noteCancelled(transport, cancelled) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === 'notifications/cancelled') cancelled.add(message.params.requestId);
    return send(message, options);
  };
}

/** Whether the SDK rejects progress of a call that it has just cancelled: the notification was on its way already. */
function isLateProgress(error, cancelled) {
  const [, text] = error.message.match(/^Received a progress notification for an unknown token: (.*)$/s) ?? [];
  return text !== undefined && cancelled.has(JSON.parse(text).params?.progressToken);
}

async function run(peer, steps, report) {
  Object.assign(report, await peer.connect());
  const { client } = peer;
  noteCancelled(client.transport, peer.cancelled);
  report.serverInfo = client.getServerVersion();
  report.capabilities = client.getServerCapabilities();
  report.instructions = client.getInstructions();
  report.definitions = await pages((cursor) => client.listTools(cursor), 'tools');
  report.tools = report.definitions.map((tool) => tool.name);
  await calls(peer, steps, report);
  if (steps.flags.has('resources')) {
    report.resources = await pages((cursor) => client.listResources(cursor), 'resources');
    report.templates = await pages((cursor) => client.listResourceTemplates(cursor), 'resourceTemplates');
  }
  if (steps.flags.has('prompts')) report.prompts = await pages((cursor) => client.listPrompts(cursor), 'prompts');
  report.reads = await all(steps.reads, (uri) => client.readResource({ uri }));
  report.got = await all(steps.prompts, (params) => client.getPrompt(params));
  report.completions = await all(steps.completions, (params) => client.complete(params));
  report.followed = await all(steps.follows, (params) => follow(peer, params));
}

/**
 * Runs a driver. `bind(steps, answer)` returns `{ client, connect, call, follow }`: the SDK's client, what connects it and
 * tells the protocol version, what calls a tool, and what follows a resource and gives what stops it. `answer(kind, request)` is what the client's request handlers return.
 */
export async function main(bind) {
  const report = { tools: [], calls: [], finished: [], requests: [], notifications: [] };
  let peer;
  let status = 0;
  try {
    const steps = parse(process.argv.slice(2));
    const answer = (kind, request) => {
      report.requests.push({ method: request.method, params: request.params });
      return kind === 'elicitation' && steps.flags.has('decline') ? { action: 'decline' } : ANSWERS[kind];
    };
    peer = bind(steps, answer);
    peer.updates = updates();
    peer.cancelled = new Set();
    // What the SDK finds wrong with a message that is no answer.
    peer.client.onerror = (error) => {
      if (isLateProgress(error, peer.cancelled)) return;
      report.faults = [...(report.faults ?? []), error.message];
    };
    peer.client.fallbackNotificationHandler = async ({ method, params }) => {
      report.notifications.push(method);
      if (method === 'notifications/resources/updated') peer.updates.add(params.uri);
    };
    await run(peer, steps, report);
  } catch (error) {
    status = 1;
    report.error = { code: error.code, message: error.message, data: error.data };
    if (error instanceof Usage) process.stderr.write(USAGE);
  } finally {
    await peer?.client.close().catch(() => {});
  }
  process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(status));
}
