// The TypeScript SDK 1.x over Streamable HTTP: a session, and notifications on its GET stream.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { PromptListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { drive, watchStream } from './drive.mjs';

await drive(async (url, _mode, onChanged) => {
  const stream = watchStream();
  const transport = new StreamableHTTPClientTransport(url, { fetch: stream.fetch });
  const client = new Client({ name: 'promptweir-interop-sdk1', version: '1.0.0' });
  client.setNotificationHandler(PromptListChangedNotificationSchema, onChanged);
  await client.connect(transport);
  await stream.opened;
  return {
    revision: transport.protocolVersion,
    page: (params) => client.listPrompts(params),
    get: (params) => client.getPrompt(params),
    complete: (params) => client.complete(params),
    close: async () => {
      await transport.terminateSession();
      await client.close();
    },
  };
});
