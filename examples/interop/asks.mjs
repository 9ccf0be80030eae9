// A server of the TypeScript SDK 2, which speaks both eras, with two prompts that ask the client for a name: "pushed" sends a
// server request in the middle of the get, as servers of the legacy era do, and "required" returns what it requires, as in the
// modern era.
//
//   node asks.mjs stdio
//   node asks.mjs http    prints the address that it listens on
import { createServer } from 'node:http';
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const question = {
  mode: 'form',
  message: 'Who?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};

const greet = ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Hello, ${name}!` } }] });

function newServer() {
  const server = new McpServer({ name: 'asks', version: '1.0.0' }, { capabilities: { prompts: {} } });
  server.registerPrompt('pushed', {}, async () => greet((await server.server.elicitInput(question)).content));
  server.registerPrompt('required', {}, async (ctx) => {
    const reply = acceptedContent(ctx.mcpReq.inputResponses, 'who');
    return reply ? greet(reply) : inputRequired({ inputRequests: { who: inputRequired.elicit(question) } });
  });
  return server;
}

if (process.argv[2] === 'stdio') {
  serveStdio(newServer);
} else {
  const handler = createMcpHandler(newServer);
  const listener = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const answer = await handler.fetch(
      new Request(`http://${request.headers.host}${request.url}`, {
        method: request.method,
        headers: request.headers,
        body: chunks.length ? Buffer.concat(chunks) : undefined,
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).flushHeaders();
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
}
