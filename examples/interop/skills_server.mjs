// A server of the TypeScript SDK 2 over stdio, which speaks both eras, with the skills in a folder and one prompt.
import { McpServer } from '@modelcontextprotocol/server';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const skills = await loadSkills(process.argv[2], { directoryRead: true });
serveStdio(() => {
  const server = new McpServer({ name: 'skilled', version: '1.0.0' }, { capabilities: { prompts: {} } });
  server.registerPrompt('hello', {}, () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Hello' } }] }));
  skills.attach(server);
  return server;
});
