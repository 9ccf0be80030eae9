// The common part of both clients. A script calls drive() with a function that connects its client;
// interop_test.go starts the script as
//
//   node SCRIPT URL WORK [MODE]
//
// where WORK is {"get": [params of prompts/get…], "complete": [params of completion/complete…]}. The
// script prints READY once it is subscribed and has done the work, waits for the list to change, reads
// it again, and prints all results as one line of JSON.

/** Ends the script when something never happens: the test wants an error, not a hanging process. */
const PATIENCE_MS = 60_000;

/**
 * @typedef {object} Connection what a script returns from connecting
 * @property {string} revision the protocol revision that was agreed on
 * @property {(params: object) => Promise<{prompts: {name: string}[], nextCursor?: string}>} page lists one page
 * @property {(params: object) => Promise<object>} get
 * @property {(params: object) => Promise<object>} complete
 * @property {() => Promise<void>} close
 */

/**
 * @param {(url: URL, mode: string | undefined, onChanged: () => void) => Promise<Connection>} connect
 *   connects, and returns when list_changed will be received: onChanged is to be called with each
 */
export async function drive(connect) {
  setTimeout(() => fail(new Error(`gave up after ${PATIENCE_MS} ms`)), PATIENCE_MS).unref();
  process.on('unhandledRejection', fail);

  const [url, work, mode] = process.argv.slice(2);
  const { get, complete } = JSON.parse(work);
  const changed = resolvers();

  const client = await connect(new URL(url), mode, changed.resolve);
  const pages = await drain(client);
  const got = [];
  for (const params of get) got.push(await client.get(params));
  const completed = [];
  for (const params of complete) completed.push((await client.complete(params)).completion.values);

  console.log('READY');
  await changed.promise;
  const after = await drain(client);
  await client.close();
  const result = JSON.stringify({ revision: client.revision, pages, got, completed, changed: after.flat() });
  process.stdout.write(result + '\n', () => process.exit(0)); // not before: a pipe takes 64 KiB at once
}

/** Lists every page by hand and returns the names, page by page. */
async function drain(client) {
  const pages = [];
  let cursor;
  do {
    const { prompts, nextCursor } = await client.page(cursor === undefined ? {} : { cursor });
    pages.push(prompts.map((prompt) => prompt.name));
    cursor = nextCursor;
  } while (cursor !== undefined);
  return pages;
}

/**
 * A fetch that tells when the stream of notifications of a session is open. Clients open it after
 * their handshake and do not say when the server has answered.
 */
export function watchStream() {
  const opened = resolvers();
  const watchedFetch = async (input, init) => {
    const response = await fetch(input, init);
    if (init?.method === 'GET') {
      if (response.ok) opened.resolve();
      else opened.reject(new Error(`GET of the stream of notifications: HTTP ${response.status}`));
    }
    return response;
  };
  return { fetch: watchedFetch, opened: opened.promise };
}

function resolvers() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

function fail(error) {
  console.error(error);
  process.exit(1);
}
